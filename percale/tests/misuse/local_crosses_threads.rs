//! Objects without locks stay on their thread.
fn main() -> percale::Result<()> {
    let endpoint = percale::Fabric::loopback()?.local_domain()?.endpoint()?;
    let receive = endpoint.recv(vec![0u8; 10]);
    std::thread::spawn(move || receive.wait());
    std::thread::scope(|scope| {
        scope.spawn(|| endpoint.progress());
    });
    Ok(())
}
