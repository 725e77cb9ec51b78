//! Memory of a scope outlives the scope, and is left alone in it.
fn main() -> percale::Result<()> {
    let domain = percale::Fabric::loopback()?.domain()?;
    let endpoint = domain.endpoint()?;
    endpoint.scope(|scope| {
        let mut inside = [0u8; 8];
        let _ = scope.recv(&mut inside);
    });
    let mut room = [0u8; 8];
    let escaped = endpoint.scope(|scope| scope.recv(&mut room));
    escaped.wait()?;
    endpoint.scope(|scope| {
        let receive = scope.recv(&mut room);
        room[0] = 1;
        receive.wait()
    })?;
    Ok(())
}
