//! A connection, and what goes over it: messages, and the other side's memory. `FI_PROVIDER` chooses the
//! way, `tcp` or `verbs`; shared memory has no connections.
//!
//! Buffers are whatever the program has. Over `verbs`, where a device has to know all memory, those of
//! the domain save a copy or a registration.

use percale::{Access, Connection, Domain, Hints, Remote, Result};

/// From what travels inside of a request to what is registered for its operation.
const SIZES: [usize; 5] = [10, 500, 20_000, 100_000, 1 << 20];

fn main() -> Result<()> {
    let fabric = Hints::msg().messages().rma().open()?;
    let domain = fabric.domain()?;
    let (client, server) = connect(&domain)?;
    for size in SIZES {
        let text: Vec<u8> = (0..size).map(|at| (at * 7 + size) as u8).collect();
        messages(&domain, &client, &server, &text)?;
        memory(&domain, &client, &server, &text)?;
    }
    println!("{} sizes over {}", SIZES.len(), fabric.provider());
    Ok(())
}

/// Both ends of a connection, here in one process.
fn connect(domain: &Domain) -> Result<(Connection, Connection)> {
    let mut listener = domain.listen()?;
    let asking = domain.connect(&listener.address()?, b"let me in")?;
    let incoming = listener.wait_incoming().expect("a listener lasts");
    assert_eq!(incoming.data(), b"let me in");
    let accepting = incoming.accept(b"")?;
    Ok((asking.wait()?, accepting.wait()?))
}

/// There from memory of the program, and back in memory of the domain.
fn messages(domain: &Domain, client: &Connection, server: &Connection, text: &[u8]) -> Result<()> {
    let receive = server.recv(Vec::<u8>::with_capacity(text.len()));
    client.send(text.to_vec()).wait()?;
    assert_eq!(receive.wait()?.buffer, text);

    let receive = client.recv(domain.buffer(text.len())?);
    let mut answer = domain.buffer(text.len())?;
    answer.copy_from_slice(text);
    server.send(answer).wait()?;
    assert_eq!(&receive.wait()?.buffer[..], text);
    Ok(())
}

/// The server's memory is written and read by the client, who has been told where it is.
fn memory(domain: &Domain, client: &Connection, server: &Connection, text: &[u8]) -> Result<()> {
    let region = domain.region(text.len(), Access::ReadWrite)?;
    let ticket = client.recv(vec![0u8; Remote::BYTES]);
    server.send(region.remote().to_bytes().to_vec()).wait()?;
    let ticket = ticket.wait()?.buffer.try_into().expect("as long as it was sent");
    let remote = Remote::from_bytes(ticket);

    client.to().write(remote, text.to_vec()).wait()?;
    let read = client.to().read(remote, vec![0u8; text.len()]).wait()?;
    assert_eq!(read, text);
    assert_eq!(region.view().to_vec(), text);
    Ok(())
}
