//! Signals for this command that are meant for the program.
#![allow(unsafe_code, reason = "waits for signals and learns who has sent them")]

use std::{
    io::{Error, Result},
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::Command,
    ptr, thread,
};

use rustix::process::{Pid, Signal, kill_process};

/// What asks a program to end, or to do something of its own.
const HANDED_ON: [i32; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Signals that wait until there is somebody to hand them to.
pub(super) struct Held {
    signals: libc::sigset_t,
    /// What was held before.
    before: libc::sigset_t,
}

/// Keeps signals from ending this process. To be called while there is one thread.
pub(super) fn hold() -> Result<Held> {
    let (mut signals, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: initialised by the first call, which only fails for an address that is none.
    let signals = unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in HANDED_ON {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        signals.assume_init()
    };
    // SAFETY: an initialised set, and room for another.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, before.as_mut_ptr()) } {
        // SAFETY: filled in, since that has succeeded.
        0 => Ok(Held { signals, before: unsafe { before.assume_init() } }),
        error => Err(Error::from_raw_os_error(error)),
    }
}

impl Held {
    /// A command's process gets signals as this one did.
    pub(super) fn release_in(&self, command: &mut Command) {
        let before = self.before;
        let release = move || {
            // SAFETY: an initialised set; the previous one is not asked for.
            match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) } {
                0 => Ok(()),
                error => Err(Error::from_raw_os_error(error)),
            }
        };
        // SAFETY: between fork and exec one call that is allowed in a handler of signals, and
        // neither memory is allocated nor a lock taken.
        unsafe { command.pre_exec(release) };
    }

    /// Hands what comes from now on to a process, but for keys of the terminal: these reach every
    /// process of the foreground, and twice is another request than once.
    pub(super) fn hand_to(self, child: Pid) {
        thread::spawn(move || {
            loop {
                let mut about = MaybeUninit::<libc::siginfo_t>::uninit();
                // SAFETY: an initialised set, and room for what is said about a signal of it.
                let number = unsafe { libc::sigwaitinfo(&self.signals, about.as_mut_ptr()) };
                if number < 0 {
                    continue;
                }
                // SAFETY: filled in, since there was a signal.
                let from_kernel = unsafe { about.assume_init() }.si_code > 0;
                // There is no such process any more when it has just ended.
                if let Some(signal) = Signal::from_named_raw(number).filter(|_| !from_kernel) {
                    let _ = kill_process(child, signal);
                }
            }
        });
    }
}
