//! Remote procedure calls: requests are looked at where they came in, and answers leave from where they
//! were made. Nothing is copied in between.

use std::sync::atomic::{AtomicU64, Ordering};

use percale::{Address, Domain, Endpoint, Peer, Result};

/// Bytes of the largest call.
const CALL: usize = 16 << 10;

/// Requests are untagged and begin with the tag of their answer; [`BYE`] has none.
const HEAD: usize = 8;
const HELLO: u64 = 0;
const BYE: u64 = u64::MAX;

/// The side that asks.
pub(crate) struct Client {
    endpoint: Endpoint,
    server: Peer,
    next: AtomicU64,
}

impl Client {
    /// A client of the server at an address, to which it introduces itself.
    pub(crate) async fn connect(domain: &Domain, server: &Address) -> Result<Self> {
        let (endpoint, server) = (domain.endpoint()?, domain.peer(server)?);
        let client = Self { endpoint, server, next: AtomicU64::new(HELLO + 1) };
        let address = client.endpoint.address()?;
        // Messages name their sender only once the server knows it.
        let welcome = client.endpoint.recv_tagged(HELLO, ());
        client.request(HELLO, address.as_bytes()).await?;
        welcome.await?;
        Ok(client)
    }

    /// Calls, and waits for the answer. Many calls may be under way.
    pub(crate) async fn call(&self, argument: &[u8]) -> Result<Vec<u8>> {
        let tag = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.endpoint.recv_tagged(tag, Vec::<u8>::with_capacity(CALL));
        self.request(tag, argument).await?;
        Ok(answer.await?.buffer)
    }

    /// Tells the server that there will be no more calls.
    pub(crate) async fn finish(&self) -> Result<()> {
        self.request(BYE, &[]).await
    }

    async fn request(&self, tag: u64, argument: &[u8]) -> Result<()> {
        let request = [&tag.to_le_bytes()[..], argument].concat();
        self.endpoint.send(self.server, request).await?;
        Ok(())
    }
}

/// Answers calls until so many clients have finished.
pub(crate) async fn serve(
    domain: &Domain,
    endpoint: &Endpoint,
    clients: usize,
    answer: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<()> {
    let mut finished = 0;
    let mut requests = endpoint.recv_many(64 * CALL, CALL)?;
    while finished < clients {
        let Some(request) = requests.next().await else {
            // The buffer is full. Its messages keep it until they have been answered.
            requests = endpoint.recv_many(64 * CALL, CALL)?;
            continue;
        };
        let request = request?;
        let Some((head, argument)) = request.split_first_chunk::<HEAD>() else { continue };
        match (u64::from_le_bytes(*head), request.peer()) {
            (HELLO, _) => {
                let peer = domain.peer(&Address::from_bytes(argument))?;
                endpoint.send_tagged(peer, HELLO, ()).detach();
            }
            (BYE, _) => finished += 1,
            // Nobody waits for the end: a client that is slow holds up no other.
            (tag, Some(peer)) => endpoint.send_tagged(peer, tag, answer(argument)).detach(),
            // It has not introduced itself.
            (_, None) => {}
        }
    }
    Ok(())
}

/// Two clients in this process, 100 calls each.
pub(crate) async fn demonstrate(domain: Domain) -> Result<()> {
    let endpoint = domain.endpoint()?;
    let address = endpoint.address()?;
    let client = async || {
        let client = Client::connect(&domain, &address).await?;
        for i in 0..100u32 {
            let answer = client.call(format!("call {i}").as_bytes()).await?;
            assert_eq!(answer, format!("CALL {i}").into_bytes());
        }
        client.finish().await
    };
    let server = serve(&domain, &endpoint, 2, |argument| argument.to_ascii_uppercase());
    let clients = smol::future::zip(client(), client());
    let (served, (one, two)) = smol::future::zip(server, clients).await;
    served.and(one).and(two)?;
    println!("200 calls over {}", domain.info().fabric.as_ref().map_or("", provider));
    Ok(())
}

fn provider(fabric: &percale::attr::FabricAttr) -> &str {
    fabric.prov_name.as_deref().unwrap_or_default()
}
