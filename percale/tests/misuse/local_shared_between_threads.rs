//! Objects without locks are not even looked at from another thread.
fn main() -> percale::Result<()> {
    let endpoint = percale::Fabric::loopback()?.local_domain()?.endpoint()?;
    std::thread::scope(|scope| {
        scope.spawn(|| endpoint.progress());
    });
    Ok(())
}
