//! Bytes from a peer are no text until somebody has looked at them, and never a reference.
fn main() -> percale::Result<()> {
    let domain = percale::Fabric::loopback()?.domain()?;
    let endpoint = domain.endpoint()?;
    endpoint.recv(String::with_capacity(100)).wait()?;
    endpoint.recv(Vec::<bool>::with_capacity(100)).wait()?;
    let view = domain.region(64, percale::Access::ReadWrite)?.view();
    let _: &str = view.get(0);
    Ok(())
}
