//! SETUP. Errors that mean a shortage, in words that name the limit in force and what raises it.

use std::fs::read_to_string;

use rustix::process::{Resource, getrlimit};

use crate::Errno;

/// The error's text and, if it means a shortage, what is short and where its limit is set.
pub fn explained(reason: Errno) -> String {
    match limit(reason) {
        Some(limit) => format!("{reason}: {limit}"),
        None => reason.to_string(),
    }
}

/// What is short, `None` for other errors.
pub fn limit(reason: Errno) -> Option<String> {
    Some(match reason.get() {
        libc::EMFILE => format!(
            "this process has as many files and sockets open as it may, {} (ulimit -n)",
            current(Resource::Nofile)
        ),
        libc::ENFILE => format!(
            "the host has as many files open as it may, {} (sysctl fs.file-max)",
            number("/proc/sys/fs/file-max")
        ),
        libc::EFBIG => format!(
            "files of this process may have {} bytes (ulimit -f, in blocks)",
            current(Resource::Fsize)
        ),
        libc::ENOMEM | libc::ENOSPC => format!(
            "memory is short: {} available on the host; its control group (memory.max), ulimit -v \
             and vm.overcommit_memory may allow less",
            available(&read_to_string("/proc/meminfo").unwrap_or_default())
        ),
        _ => return None,
    })
}

fn current(resource: Resource) -> String {
    getrlimit(resource).current.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

fn number(path: &str) -> String {
    read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// What `/proc/meminfo` calls available.
fn available(meminfo: &str) -> String {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.map_or_else(|| "unknown".to_owned(), |amount| amount.trim().to_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_with_what_raises_them() {
        let limit = current(Resource::Nofile);
        let text = explained(Errno::EMFILE);
        assert!(text.contains(&limit) && text.ends_with("(ulimit -n)"), "{text}");
        assert!(explained(Errno::new(libc::ENFILE)).contains("fs.file-max"));
        assert!(explained(Errno::ENOSPC).contains(" kB available"), "{}", explained(Errno::ENOSPC));
        assert_eq!(explained(Errno::ETRUNC), Errno::ETRUNC.to_string());
    }

    #[test]
    fn what_is_available() {
        assert_eq!(available("MemFree: 1 kB\nMemAvailable:    12345 kB\n"), "12345 kB");
        assert_eq!(available(""), "unknown");
    }
}
