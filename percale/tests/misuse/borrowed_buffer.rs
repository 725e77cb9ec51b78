//! A borrow could end before the operation does.
fn main() -> percale::Result<()> {
    let domain = percale::Fabric::loopback()?.domain()?;
    let endpoint = domain.endpoint()?;
    let peer = domain.peer(&endpoint.address()?)?;
    let bytes = [1u8; 100];
    endpoint.send(peer, &bytes[..]).wait()?;
    Ok(())
}
