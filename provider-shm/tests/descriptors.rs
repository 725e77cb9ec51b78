//! A process without descriptors left. One test, since the limit is the process's.

use std::fs::File;

use fabric_core::Errno;
use provider_shm::{
    address::{socket_address, unique},
    link::Link,
    listener::Listener,
};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn a_connection_without_a_descriptor_is_closed_and_the_next_one_served() {
    let address = socket_address(&unique().unwrap()).unwrap();
    let mut listener = Listener::open(&address).unwrap();
    let refused = Link::connect(&address).unwrap();

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert_eq!(listener.accept().unwrap_err(), Errno::EMFILE);
    assert!(!refused.is_alive(), "it is told, instead of waiting for ever");
    assert!(listener.accept().unwrap().is_none(), "nothing keeps the socket readable");

    drop(fill);
    let served = Link::connect(&address).unwrap();
    assert!(listener.accept().unwrap().is_some());
    drop(served);
}
