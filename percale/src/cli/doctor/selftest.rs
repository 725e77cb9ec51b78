//! Messages between two endpoints of this process, over each provider that offers reliable datagrams.

use std::{
    iter,
    time::{Duration, Instant},
};

use fabric_core::shortage;
use percale::{Errno, Error, Fabric, Hints, Info, NoProvider, Result};

use super::{Finding, State};

const CHECK: &str = "self-test";
/// What each is given for all of its messages.
const PATIENCE: Duration = Duration::from_secs(10);
/// One that travels at once, and one that is fetched.
const SIZES: [usize; 2] = [64, 1 << 20];

const PROVIDERS: [&str; 3] = ["shm", "tcp", "tcp;ofi_rxm"];

/// Each provider in its turn, and a finding more if none works.
pub(super) fn check() -> impl Iterator<Item = Finding> {
    let mut providers = PROVIDERS.into_iter();
    let mut told = false;
    iter::from_fn(move || match providers.next() {
        Some(name) => {
            let finding = provider(name);
            told |= finding.state == State::Ok;
            Some(finding)
        }
        None if std::mem::replace(&mut told, true) => None,
        None => {
            let found = "no provider can be used";
            Some(Finding::new(CHECK, State::Problem, found).fix("percale info --why"))
        }
    })
}

/// Takes the provider's first offer, as most programs do.
fn provider(name: &str) -> Finding {
    let alone = match name {
        // The name alone takes its layers, too.
        "tcp" => "tcp;^ofi_rxm",
        name => name,
    };
    let info = match Hints::rdm().messages().provider(alone).offers() {
        Ok(infos) => infos.into_iter().next().unwrap_or_default(),
        Err(error) => return not_offered(name, &error),
    };
    let domain = info.domain.as_ref().and_then(|domain| domain.name.clone());
    let domain = domain.as_deref().unwrap_or("-");
    match run(info) {
        Ok(took) => {
            let found = format!("{name} over {domain}: messages of 64 B and 1 MiB in {took:.1?}");
            Finding::new(CHECK, State::Ok, found)
        }
        Err(error) => {
            let reason = shortage::explained(error.errno());
            let found = format!("{name} over {domain} fails: {reason}");
            Finding::new(CHECK, State::Problem, found)
                .fix("FI_LOG_LEVEL=warn percale doctor tells more")
        }
    }
}

fn not_offered(name: &str, error: &NoProvider) -> Finding {
    let nearest = error.rejections().first();
    let why = nearest.map_or_else(String::new, |r| {
        format!(": {}, wanted {}, offered {}", r.attribute, r.wanted, r.offered)
    });
    let finding = Finding::new(CHECK, State::Note, format!("{name} is not offered{why}"));
    match nearest {
        Some(rejection) => finding.fix(rejection.fix.clone()),
        None => finding,
    }
}

/// Each size once; how long that took.
fn run(info: Info) -> Result<Duration> {
    let domain = Fabric::of_offer(info)?.domain()?;
    let begin = Instant::now();
    let late = begin + PATIENCE;
    for size in SIZES {
        let message: Vec<u8> = (0..size).map(|at| (at * 7 + (at >> 8)) as u8).collect();
        let (a, b) = (domain.endpoint()?, domain.endpoint()?);
        let receive = b.recv(vec![0u8; size]);
        let send = a.send(domain.peer(&b.address()?)?, message.clone());
        // One that cannot leave says why; what does not come says nothing.
        send.wait_deadline(late).map_err(|_| failed(Errno::ETIMEDOUT))??;
        let received = receive.wait_deadline(late).map_err(|_| failed(Errno::ETIMEDOUT))??;
        if received.buffer != message {
            return Err(failed(Errno::EIO));
        }
    }
    Ok(begin.elapsed())
}

fn failed(errno: Errno) -> Error {
    Error::Failed { errno, data: Box::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_of_this_build_works_here() {
        for finding in check() {
            assert!(finding.state <= State::Note, "{finding:?}");
        }
    }

    #[test]
    fn a_provider_that_does_not_exist_is_told() {
        let finding = provider("nonsense");
        assert_eq!(finding.state, State::Note);
        assert!(finding.fix.is_some_and(|fix| fix.contains("no such provider")));
    }
}
