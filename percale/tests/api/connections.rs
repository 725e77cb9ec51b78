//! Listeners and connections.

use std::time::Duration;

use percale::{
    Access, Any, Connection, Domain, Errno, Error, Fabric, Hints,
    reactor::{AsyncIo, Tokio},
};

use crate::pair::HERE;

fn fabric() -> Fabric {
    Hints::msg().messages().rma().provider("tcp").at(HERE, None).open().unwrap()
}

fn pair(domain: &Domain) -> (Connection, Connection) {
    let mut listener = domain.listen().unwrap();
    let asking = domain.connect(&listener.address().unwrap(), b"").unwrap();
    let accepting = listener.wait_incoming().unwrap().accept(b"").unwrap();
    (asking.wait().unwrap(), accepting.wait().unwrap())
}

#[test]
fn messages_and_memory_over_a_connection() {
    let domain = fabric().domain().unwrap();
    let (client, server) = pair(&domain);
    assert!(client.peer().is_ok() && server.peer().is_ok());
    for size in [0usize, 10, 100_000] {
        let receive = server.recv(vec![0u8; 100_000]);
        client.send(vec![3u8; size]).wait().unwrap();
        assert_eq!(receive.wait().unwrap().buffer, vec![3u8; size]);
    }
    let region = domain.region(64, Access::ReadWrite).unwrap();
    region.view().write(0, b"theirs");
    let read = client.to().read(region.remote().slice(0, 6).unwrap(), vec![0u8; 6]);
    assert_eq!(read.wait().unwrap(), b"theirs");
}

#[test]
fn the_end_of_a_connection_is_told() {
    let domain = fabric().domain().unwrap();
    let (client, mut server) = pair(&domain);
    let receive = server.recv(vec![0u8; 10]);
    assert!(!server.wait_closed(Duration::from_millis(10)));
    drop(client);
    assert!(server.wait_closed(Duration::from_secs(10)));
    assert!(receive.wait().is_err());
    assert!(server.send("nobody").wait().is_err());
}

#[test]
fn refusals_come_with_reasons() {
    let domain = fabric().domain().unwrap();
    let mut listener = domain.listen().unwrap();
    let address = listener.address().unwrap();
    let asking = domain.connect(&address, b"one").unwrap();
    listener.wait_incoming().unwrap().reject(b"full").unwrap();
    match asking.wait() {
        Err(Error::Failed { errno: Errno::ECONNREFUSED, data }) => assert_eq!(&data[..], b"full"),
        other => panic!("{other:?}"),
    }
    let asking = domain.connect(&address, b"two").unwrap();
    drop(listener.wait_incoming().unwrap());
    assert!(asking.wait().is_err());
    assert!(listener.wait_incoming_timeout(Duration::from_millis(10)).is_none());
    drop(listener);
    assert!(domain.connect(&address, b"").and_then(|asking| asking.wait()).is_err());
}

#[test]
fn shared_memory_has_no_connections() {
    let domain = Fabric::loopback().unwrap().domain().unwrap();
    assert_eq!(domain.listen().unwrap_err().errno(), Errno::ENOSYS);
}

async fn serve_and_ask(domain: Domain) {
    let mut listener = domain.listen().unwrap();
    let address = listener.address().unwrap();
    let server = async {
        let mut connection = listener.incoming().await.unwrap().accept(b"").unwrap().await.unwrap();
        let received = connection.recv(vec![0u8; 64]).await.unwrap();
        connection.send(received.buffer).await.unwrap();
        connection.closed().await;
    };
    let client = async {
        let connection = domain.connect(&address, b"").unwrap().await.unwrap();
        let answer = connection.recv(vec![0u8; 64]);
        connection.send("echo").await.unwrap();
        assert_eq!(answer.await.unwrap().buffer, b"echo");
    };
    smol::future::zip(server, client).await;
}

#[test]
fn connections_are_futures() {
    let builder = || fabric().builder::<Any>();
    smol::block_on(serve_and_ask(builder().open().unwrap()));
    smol::block_on(async { serve_and_ask(builder().reactor(AsyncIo).open().unwrap()).await });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { serve_and_ask(builder().reactor(Tokio).open().unwrap()).await });
}
