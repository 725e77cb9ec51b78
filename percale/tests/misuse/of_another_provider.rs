//! Objects of providers that are named are of different types.
fn main() -> percale::Result<()> {
    let fabric = percale::Fabric::loopback()?;
    let domain = fabric.builder::<percale::Shm>().open()?;
    let endpoint: percale::Endpoint<percale::Tcp> = domain.endpoint()?;
    drop(endpoint);
    Ok(())
}
