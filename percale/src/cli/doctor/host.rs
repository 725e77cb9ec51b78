//! Kernel, limits of this process, memory, `/dev/shm`.

use fabric_core::shortage;
use percale::Errno;
use provider_shm::segment::{MOST_HOT, Segment, hot};

use super::{Finding, State, rdma, read};

/// What containers get where nothing else is said, and what is little for a job.
const SMALL_SHM: u64 = 64 << 20;
/// Connections that endpoints let wait.
const BACKLOG: u64 = 4096;
/// Memory that a program may well want to register.
const MEMLOCK: u64 = 64 << 20;

pub(super) fn check() -> Vec<Finding> {
    let limits = read("/proc/self/limits").unwrap_or_default();
    let status = read("/proc/self/status").unwrap_or_default();
    vec![
        kernel(&read("/proc/sys/kernel/osrelease").unwrap_or_default()),
        segments(),
        file_size(limit(&limits, "Max file size")),
        open_files(limit(&limits, "Max open files")),
        locked_memory(limit(&limits, "Max locked memory"), &status, rdma::is_there()),
        backlog(read("/proc/sys/net/core/somaxconn").as_deref()),
        dev_shm(),
        huge_pages(&read("/proc/meminfo").unwrap_or_default()),
        io_uring(read("/proc/sys/kernel/io_uring_disabled").as_deref()),
    ]
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (state, found) = match version {
        (0, _) => (State::Note, format!("of an unknown version: {release:?}")),
        version if version < (4, 18) => (State::Problem, format!("{release}; 4.18 is needed")),
        // See `docs/src/tcp.md`: older ones ask ever more rarely whether a full peer lives.
        version if version < (6, 15) => (
            State::Ok,
            format!("{release} (from 6.15 on, dead hosts behind full sockets are noticed sooner)"),
        ),
        _ => (State::Ok, release.to_owned()),
    };
    let finding = Finding::new("kernel", state, found);
    if state == State::Problem { finding.fix("use a newer kernel") } else { finding }
}

/// Makes a segment as an endpoint does.
fn segments() -> Finding {
    let made = hot(usize::MAX).ok_or(Errno::EOTHER).and_then(Segment::create);
    match made {
        Ok(_) => {
            let found = format!("rings of {} KiB can be made (memfd)", MOST_HOT >> 10);
            Finding::new("shared memory", State::Ok, found)
        }
        Err(reason) => {
            let found = format!("no ring can be made: {}", shortage::explained(reason));
            let fix = "raise the limit; in a container, allow memfd_create";
            Finding::new("shared memory", State::Problem, found).fix(fix)
        }
    }
}

/// A limit that is in force and the most that the process may raise it to; `None` is unlimited.
type Limit = (Option<u64>, Option<u64>);

/// A line of `/proc/self/limits`.
fn limit(limits: &str, name: &str) -> Option<Limit> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_ascii_whitespace();
    let mut amount = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some((amount()?, amount()?))
}

fn words(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

fn file_size(limit: Option<Limit>) -> Finding {
    const CHECK: &str = "file size";
    match limit {
        Some((Some(limit), _)) if limit < 4096 => {
            let found = format!("{limit} bytes: no shm endpoint can be opened");
            Finding::new(CHECK, State::Problem, found).fix("ulimit -f unlimited")
        }
        Some((Some(limit), _)) if limit < MOST_HOT as u64 => {
            let found = format!("{limit} bytes: shm keeps to small rings, and is slower");
            Finding::new(CHECK, State::Warning, found).fix("ulimit -f unlimited")
        }
        Some((limit, _)) => Finding::new(CHECK, State::Ok, words(limit)),
        None => Finding::new(CHECK, State::Note, "the limit is not known"),
    }
}

/// Two descriptors for a peer over shm, one over tcp.
fn open_files(limit: Option<Limit>) -> Finding {
    const CHECK: &str = "open files";
    let Some((soft, hard)) = limit else {
        return Finding::new(CHECK, State::Note, "the limit is not known");
    };
    let Some(most) = soft else { return Finding::new(CHECK, State::Ok, "unlimited") };
    let peers = most.saturating_sub(50) / 2;
    let found = format!("{most}, enough for about {peers} peers of one process over shm");
    if most >= 4096 {
        return Finding::new(CHECK, State::Ok, found);
    }
    let state = if most < 1024 { State::Warning } else { State::Note };
    let finding = Finding::new(CHECK, state, found);
    match hard {
        Some(hard) if hard <= most => {
            finding.fix("have the hard limit raised (limits.conf, nofile)")
        }
        hard => finding.fix(format!("ulimit -n {} in larger jobs", words(hard.or(Some(65536))))),
    }
}

/// What RDMA registers is locked. With `CAP_IPC_LOCK` there is no limit.
fn locked_memory(limit: Option<Limit>, status: &str, rdma: bool) -> Finding {
    const CHECK: &str = "locked memory";
    const CAP_IPC_LOCK: u32 = 14;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    if effective.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1) {
        return Finding::new(CHECK, State::Ok, "unlimited for this process (CAP_IPC_LOCK)");
    }
    match limit {
        Some((Some(most), _)) if most < MEMLOCK => {
            let state = if rdma { State::Warning } else { State::Note };
            let who = if rdma { "RDMA cannot register more" } else { "matters to RDMA only" };
            Finding::new(CHECK, state, format!("{} KiB; {who}", most >> 10)).fix(
                "ulimit -l unlimited; for all: memlock in /etc/security/limits.conf, \
                 LimitMEMLOCK= of the batch system's service",
            )
        }
        Some((most, _)) => Finding::new(CHECK, State::Ok, words(most)),
        None => Finding::new(CHECK, State::Note, "the limit is not known"),
    }
}

fn backlog(somaxconn: Option<&str>) -> Finding {
    const CHECK: &str = "backlog";
    match somaxconn.and_then(|text| text.parse::<u64>().ok()) {
        Some(most) if most < BACKLOG => {
            let found = format!(
                "{most} connections may wait to be accepted; when more come at once, some are made again"
            );
            Finding::new(CHECK, State::Note, found).fix(format!(
                "sysctl -w net.core.somaxconn={BACKLOG} for jobs of thousands of ranks"
            ))
        }
        Some(most) => Finding::new(CHECK, State::Ok, format!("{most} connections may wait")),
        None => Finding::new(CHECK, State::Note, "net.core.somaxconn is not known"),
    }
}

fn dev_shm() -> Finding {
    match rustix::fs::statvfs("/dev/shm") {
        Ok(fs) => {
            room(fs.f_blocks.saturating_mul(fs.f_frsize), fs.f_bavail.saturating_mul(fs.f_frsize))
        }
        Err(error) => {
            let found = format!("{error}; Percale needs none, MPI libraries do");
            let fix = "mount -t tmpfs -o mode=1777 shm /dev/shm";
            Finding::new("/dev/shm", State::Warning, found).fix(fix)
        }
    }
}

/// Percale keeps nothing there.
fn room(size: u64, free: u64) -> Finding {
    const CHECK: &str = "/dev/shm";
    let mib = |bytes: u64| bytes >> 20;
    let found = format!("{} of {} MiB are free", mib(free), mib(size));
    let others = "Percale keeps nothing there, MPI and other fabric libraries do";
    if free < size / 20 {
        return Finding::new(CHECK, State::Warning, format!("full: {found}; {others}"))
            .fix("remove what ended jobs have left (see leftovers), or mount it larger");
    }
    if size <= SMALL_SHM {
        return Finding::new(CHECK, State::Warning, format!("small: {found}; {others}"))
            .fix("in a container: --shm-size=1g; else mount -o remount,size=1g /dev/shm");
    }
    Finding::new(CHECK, State::Ok, found)
}

/// For the memory of programs; Percale's own is small.
fn huge_pages(meminfo: &str) -> Finding {
    let number = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok())
    };
    let found = match (number("HugePages_Total:"), number("HugePages_Free:")) {
        (Some(0), _) | (None, _) => "none reserved; needed by nothing here".to_owned(),
        (Some(total), free) => {
            format!("{} of {total} reserved ones are free", free.unwrap_or(0))
        }
    };
    Finding::new("huge pages", State::Ok, found)
}

fn io_uring(disabled: Option<&str>) -> Finding {
    let found = match disabled {
        Some("0") => "allowed; not used",
        Some("1") => "allowed to some; not used",
        Some(_) => "switched off; not used",
        None => "not there, or older than its switch; not used",
    };
    Finding::new("io_uring", State::Ok, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
        Max file size             unlimited            unlimited            bytes     \n\
        Max open files            1024                 524288               files     \n\
        Max locked memory         8388608              8388608              bytes     \n";

    #[test]
    fn limits() {
        assert_eq!(limit(LIMITS, "Max open files"), Some((Some(1024), Some(524_288))));
        assert_eq!(limit(LIMITS, "Max file size"), Some((None, None)));
        assert_eq!(limit(LIMITS, "Max nonsense"), None);
        let files = open_files(limit(LIMITS, "Max open files"));
        assert_eq!(files.state, State::Note);
        assert_eq!(files.fix.unwrap(), "ulimit -n 524288 in larger jobs");
        assert_eq!(open_files(Some((Some(100), Some(100)))).state, State::Warning);
        assert_eq!(open_files(Some((None, None))).state, State::Ok);
        assert_eq!(file_size(Some((Some(100), None))).state, State::Problem);
        assert_eq!(file_size(Some((Some(5000), None))).state, State::Warning);
    }

    #[test]
    fn locked_memory_matters_to_rdma() {
        let limit = limit(LIMITS, "Max locked memory");
        let state = |status, rdma| locked_memory(limit, status, rdma).state;
        assert_eq!(state("CapEff:\t0000000000000000\n", true), State::Warning);
        assert_eq!(state("", false), State::Note);
        assert_eq!(state("CapEff:\t000001ffffffffff\n", true), State::Ok);
        assert_eq!(locked_memory(Some((None, None)), "", true).state, State::Ok);
    }

    #[test]
    fn kernels() {
        assert_eq!(kernel("4.17.3-x").state, State::Problem);
        assert_eq!(kernel("4.18").state, State::Ok);
        assert_eq!(kernel("6.18.44-fc").state, State::Ok);
        assert_eq!(kernel("").state, State::Note);
    }

    #[test]
    fn rooms() {
        assert_eq!(room(64 << 20, 64 << 20).state, State::Warning);
        assert!(room(1 << 30, 1 << 20).found.starts_with("full"));
        assert_eq!(room(1 << 30, 1 << 29).state, State::Ok);
        assert_eq!(backlog(Some("128")).state, State::Note);
        assert_eq!(backlog(Some("4096")).state, State::Ok);
        assert!(huge_pages("HugePages_Total:  8\nHugePages_Free:  3\n").found.contains("3 of 8"));
        assert_eq!(segments().state, State::Ok);
    }
}
