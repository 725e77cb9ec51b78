//! A buffer belongs to its operation.
fn main() -> percale::Result<()> {
    let domain = percale::Fabric::loopback()?.domain()?;
    let endpoint = domain.endpoint()?;
    let peer = domain.peer(&endpoint.address()?)?;
    let buffer = vec![1u8; 100];
    let send = endpoint.send(peer, buffer);
    println!("{buffer:?}");
    send.wait()?;
    Ok(())
}
