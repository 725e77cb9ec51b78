//! Two processes, a message and an answer, by threads that wait.
//!
//! ```text
//! cargo run --example hello                   prints its address and waits
//! cargo run --example hello -- ADDRESS        sends to it
//! ```
//!
//! `FI_PROVIDER` chooses the way: `shm`, `tcp`, `verbs`.

use std::time::Duration;

use percale::{Address, Hints};

const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = Hints::rdm().messages().source().open()?;
    let domain = fabric.domain()?;
    let endpoint = domain.endpoint()?;
    println!("provider {}", fabric.provider());

    match std::env::args().nth(1) {
        None => {
            println!("address {}", hex(endpoint.address()?.as_bytes()));
            let late = |_| "nobody called";
            let name = endpoint.recv(Vec::<u8>::with_capacity(4096)).wait_timeout(LIMIT);
            let name = name.map_err(late)??;
            // The first message is the caller's address, so that it can be answered.
            let peer = domain.peer(&Address::from_bytes(name.buffer))?;
            endpoint.send(peer, "hello yourself").wait()?;
        }
        Some(address) => {
            let peer = domain.peer(&Address::from_bytes(bytes(&address)?))?;
            let answer = endpoint.recv(Vec::<u8>::with_capacity(4096));
            endpoint.send(peer, endpoint.address()?.as_bytes().to_vec()).wait()?;
            let answer = answer.wait_timeout(LIMIT).map_err(|_| "no answer")??;
            println!("answer {}", String::from_utf8_lossy(&answer.buffer));
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    let digits: Vec<u8> = hex.bytes().collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16)).collect()
}
