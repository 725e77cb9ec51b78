//! Copies between processes by the kernel: tried as ranks of a job would, between processes that are
//! related by nothing but their user.

use std::process::{Command, Stdio};

use percale::param::known::SHM_DISABLE_CMA;
use provider_shm::copy;

use super::{Finding, State, read};

const CHECK: &str = "direct copies";

/// A word in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pid: i32,
    address: u64,
    value: u64,
}

impl Witness {
    /// What the first process writes on the command line of the second one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut numbers = text.split(':').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let parsed = (|| {
            let pid = i32::try_from(next()?).ok()?;
            Some(Self { pid, address: next()?, value: next()? })
        })();
        parsed.ok_or_else(|| "three numbers, as in 1:2:3".to_owned())
    }

    pub(super) fn can_be_read(self) -> bool {
        copy::probe(self.pid, (self.address, self.value))
    }
}

/// Lets a child read a word of this process: parents may do more to their children than ranks of a
/// job to each other, children to their parents may not.
pub(super) fn check() -> Finding {
    if SHM_DISABLE_CMA.truth() {
        return Finding::new(CHECK, State::Note, "not tried: FI_SHM_DISABLE_CMA is set");
    }
    let word = Box::new(u64::from(std::process::id()) << 32 | 0x5eed);
    let address = std::ptr::from_ref::<u64>(&word) as u64;
    let witness = format!("{}:{address}:{}", std::process::id(), *word);
    let asked = std::env::current_exe().and_then(|own| {
        Command::new(own)
            .args(["doctor", "--read-from", &witness])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    match asked {
        Err(error) => Finding::new(CHECK, State::Note, format!("not tried: {error}")),
        Ok(status) if status.success() => {
            Finding::new(CHECK, State::Ok, "processes of this user copy from each other's memory")
        }
        Ok(_) => denied(
            read("/proc/sys/kernel/yama/ptrace_scope").as_deref(),
            &read("/proc/self/status").unwrap_or_default(),
        ),
    }
}

/// Who has denied it.
fn denied(yama: Option<&str>, status: &str) -> Finding {
    let filtered = status
        .lines()
        .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
    let (cause, fix) = match yama {
        Some(scope) if scope != "0" => (
            format!("Yama denies them (kernel.yama.ptrace_scope is {scope})"),
            "sysctl -w kernel.yama.ptrace_scope=0",
        ),
        _ if filtered => (
            "a seccomp filter of this process denies them (process_vm_readv)".to_owned(),
            "in a container: --cap-add SYS_PTRACE, or a seccomp profile that allows \
             process_vm_readv and process_vm_writev",
        ),
        _ => (
            "the system denies them".to_owned(),
            "look for a security module, hidepid or namespaces that keep processes apart",
        ),
    };
    let found = format!("{cause}; large messages over shm wait for a sender that computes");
    Finding::new(CHECK, State::Warning, found).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witnesses() {
        assert_eq!(Witness::parse("1:2:3"), Ok(Witness { pid: 1, address: 2, value: 3 }));
        for bad in ["", "1:2", "x:2:3", "-1:2:3", "99999999999:2:3"] {
            assert!(Witness::parse(bad).is_err(), "{bad}");
        }
        let word = 77u64;
        let address = std::ptr::from_ref(&word) as u64;
        let own = Witness { pid: std::process::id() as i32, address, value: 77 };
        assert!(own.can_be_read());
        assert!(!Witness { value: 78, ..own }.can_be_read());
        assert!(!Witness { pid: 0, ..own }.can_be_read());
    }

    #[test]
    fn who_denies() {
        let found = |yama, status| denied(yama, status).found;
        assert!(found(Some("1"), "Seccomp:\t2").contains("Yama"));
        assert!(found(Some("0"), "Name:\tx\nSeccomp:\t2\n").contains("seccomp"));
        assert!(found(None, "Seccomp:\t0").contains("the system"));
    }
}
