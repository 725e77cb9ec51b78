//! The examples, on every provider.

use percale::{
    Any,
    reactor::{AsyncIo, Tokio},
};

use crate::pair::fabrics;

#[allow(dead_code, reason = "its main is the example's")]
#[path = "../../examples/kv.rs"]
mod kv;
#[path = "../../examples/rpc/mod.rs"]
mod rpc;

#[test]
fn a_store_that_clients_read_by_themselves() {
    for fabric in fabrics() {
        kv::demonstrate(&fabric).unwrap();
    }
}

#[test]
fn calls_under_tokio_and_smol() {
    for fabric in fabrics() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let domain = fabric.builder::<Any>().reactor(Tokio).open().unwrap();
            rpc::demonstrate(domain).await.unwrap();
        });
        smol::block_on(async {
            let domain = fabric.builder::<Any>().reactor(AsyncIo).open().unwrap();
            rpc::demonstrate(domain).await.unwrap();
        });
    }
}
