//! Peers write to a region: there is no slice of it.
fn main() -> percale::Result<()> {
    let domain = percale::Fabric::loopback()?.domain()?;
    let region = domain.region(64, percale::Access::ReadWrite)?;
    let view = region.view();
    let _: &[u8] = &view;
    let _ = view[0];
    Ok(())
}
