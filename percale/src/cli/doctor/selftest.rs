//! Messages between two endpoints of this process, over each provider that offers reliable datagrams.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use fabric_core::{
    api::Endpoint,
    av::{AddressFormat, Av},
    completion::{Cq, CqAttr, EntryBuf},
    domain::Domain,
    lock::SafeLock,
    op::{ADDR_UNSPEC, IoVec, RecvOp, SendOp, TxMeta},
    shortage,
};
use percale::{
    Errno, Info, NoProvider, all_duties,
    attr::{API_VERSION, AvType, CqFormat, EpType},
    discover,
    flags::Flags,
};
use provider_shm::{ShmAddresses, ShmEndpoint};
use provider_tcp::{TcpEndpoint, TcpRxmEndpoint, address};

use super::{Finding, State};

const CHECK: &str = "self-test";
/// What each is given for all of its messages.
const PATIENCE: Duration = Duration::from_secs(10);
/// One that travels at once, and one that is fetched.
const SIZES: [usize; 2] = [64, 1 << 20];

type Test = fn(&Info) -> Result<Duration, Errno>;
const TESTS: [(&str, Test); 3] = [
    ("shm", |info| run::<ShmEndpoint<SafeLock>>(info, &ShmAddresses)),
    ("tcp", |info| run::<TcpEndpoint>(info, &address::EITHER)),
    ("tcp;ofi_rxm", |info| run::<TcpRxmEndpoint<SafeLock>>(info, &address::EITHER)),
];

pub(super) fn check() -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        TESTS.iter().map(|(name, test)| provider(name, *test)).collect();
    if findings.iter().all(|finding| finding.state != State::Ok) {
        let found = "no provider can be used";
        findings.push(Finding::new(CHECK, State::Problem, found).fix("percale info --why"));
    }
    findings
}

/// Takes the provider's first offer, as most programs do.
fn provider(name: &str, test: Test) -> Finding {
    let mut wish = Info { caps: Flags::MSG, ..Info::default() };
    all_duties(&mut wish, API_VERSION);
    wish.ep.get_or_insert_default().ep_type = EpType::Rdm as u32;
    wish.fabric.get_or_insert_default().prov_name = Some(match name {
        // The name alone takes its layers, too.
        "tcp" => "tcp;^ofi_rxm".to_owned(),
        name => name.to_owned(),
    });
    let info = match discover(Some(&wish)) {
        Ok(infos) => infos.into_iter().next().unwrap_or_default(),
        Err(error) => return not_offered(name, &error),
    };
    let domain = info.domain.as_ref().and_then(|domain| domain.name.as_deref()).unwrap_or("-");
    match test(&info) {
        Ok(took) => {
            let found = format!("{name} over {domain}: messages of 64 B and 1 MiB in {took:.1?}");
            Finding::new(CHECK, State::Ok, found)
        }
        Err(reason) => {
            let found = format!("{name} over {domain} fails: {}", shortage::explained(reason));
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

/// One endpoint and what it needs.
struct Side<E: Endpoint> {
    ep: Arc<E>,
    cq: Arc<Cq<E>>,
    av: Arc<Av>,
}

impl<E: Endpoint> Side<E> {
    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        format: &'static dyn AddressFormat,
    ) -> Result<Self, Errno> {
        let ep = E::open(domain, info, None, 0)?;
        let cq = Cq::open(&CqAttr { format: CqFormat::Context, ..CqAttr::default() })?;
        let av = Av::open(AvType::Table, 1, Flags::empty(), format)?;
        let side = Self { ep, cq, av };
        side.ep.bind_av(&side.av)?;
        side.ep.bind_cq(&side.cq, Flags::SEND | Flags::RECV)?;
        side.ep.enable()?;
        Ok(side)
    }

    /// Whether an operation has completed; its error if it has failed.
    fn poll(&self) -> Result<bool, Errno> {
        let mut context = 0usize;
        // SAFETY: room for one entry of that format, which is one word.
        let mut out = unsafe {
            EntryBuf::new((&raw mut context).cast(), CqFormat::Context, 1, std::ptr::null_mut())
        };
        match self.cq.read(&mut out) {
            Ok(count) => Ok(count != 0),
            Err(Errno::EAGAIN) => Ok(false),
            Err(Errno::EAVAIL) => Err(self.cq.read_error()?.err),
            Err(reason) => Err(reason),
        }
    }
}

impl<E: Endpoint> Drop for Side<E> {
    /// Nothing refers to buffers of operations any more.
    fn drop(&mut self) {
        self.ep.close();
    }
}

/// Each size once; how long that took.
fn run<E: Endpoint>(info: &Info, format: &'static dyn AddressFormat) -> Result<Duration, Errno> {
    let domain = Domain::open(info)?;
    let begin = Instant::now();
    for size in SIZES {
        let from: Vec<u8> = (0..size).map(|at| (at * 7 + (at >> 8)) as u8).collect();
        let mut to = vec![0u8; size];
        exchange::<E>(&domain, info, format, &from, &mut to, begin + PATIENCE)?;
        if from != to {
            return Err(Errno::EIO);
        }
    }
    Ok(begin.elapsed())
}

fn exchange<E: Endpoint>(
    domain: &Arc<Domain>,
    info: &Info,
    format: &'static dyn AddressFormat,
    from: &[u8],
    to: &mut [u8],
    late: Instant,
) -> Result<(), Errno> {
    // Both endpoints are closed before this returns, and with them goes every use of the buffers.
    let (a, b) = (Side::<E>::open(domain, info, format)?, Side::<E>::open(domain, info, format)?);
    let dest = a.av.insert(&b.ep.name()?, None)?;
    let place = [IoVec { base: to.as_mut_ptr(), len: to.len() }];
    let receive = RecvOp {
        iov: &place,
        src: ADDR_UNSPEC,
        tagged: false,
        tag: 0,
        ignore: 0,
        context: 0,
        flags: Flags::empty(),
    };
    // SAFETY: `to` is borrowed for longer than `b` is open.
    unsafe { b.ep.recv(&receive) }?;
    let source = [IoVec { base: from.as_ptr().cast_mut(), len: from.len() }];
    let meta = TxMeta { dest, context: 0, flags: Flags::empty(), data: 0, silent: false };
    let send = SendOp { meta, iov: &source, tagged: false, tag: 0 };
    let (mut sent, mut received, mut posted) = (false, false, false);
    while !(sent && received) {
        if !posted {
            // SAFETY: `from` is borrowed for longer than `a` is open, and is only read.
            match unsafe { a.ep.send(&send) } {
                Err(Errno::EAGAIN) => {}
                other => {
                    other?;
                    posted = true;
                }
            }
        }
        sent |= a.poll()?;
        received |= b.poll()?;
        if Instant::now() > late {
            return Err(Errno::ETIMEDOUT);
        }
        thread::yield_now();
    }
    Ok(())
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
        let finding = provider("nonsense", |_| Ok(Duration::ZERO));
        assert_eq!(finding.state, State::Note);
        assert!(finding.fix.is_some_and(|fix| fix.contains("no such provider")));
    }
}
