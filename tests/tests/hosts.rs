//! Two processes on hosts that make it hard: direct copies denied, PID namespaces side by side, no
//! room in `/dev/shm`; and with peers that die at any moment, flood each other or mean harm.
//!
//! The programs are in `c/hosts`; each ends by itself, with a child of its own at most, and has a
//! deadline besides. The library is `target/release/libfabric.so.1`, or what `PERCALE_LIB` names.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// No program takes longer, on a busy machine either.
const DEADLINE: Duration = Duration::from_secs(60);

/// Direct copies fail as in sandboxes, on either side and on both.
#[test]
fn transfers_without_direct_copies() {
    let programs = Programs::new(&["transfers"]);
    for who in ["none", "A", "B", "both"] {
        for reason in [libc_errno::EPERM, libc_errno::ENOSYS] {
            programs.run("transfers", &[who, reason]);
        }
    }
}

/// Two processes with equal ids: eight endpoints, every pair, nothing to the wrong one.
#[test]
fn equal_process_ids_in_sibling_namespaces() {
    let programs = Programs::new(&["all_pairs"]);
    let Some(unshare) = unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]) else {
        return;
    };
    let meeting = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hosts-meeting");
    let _ = fs::remove_file(&meeting);
    let start = |which: &str| {
        let mut command = Command::new(&unshare[0]);
        command.args(&unshare[1..]).arg(programs.path("all_pairs")).arg(which).arg(&meeting);
        Running::start(command, &[])
    };
    let both = [start("0"), start("1")];
    for running in both {
        running.finish("all_pairs");
    }
    let _ = fs::remove_file(&meeting);
}

/// A `/dev/shm` of 1 MiB, as containers have it, is not even needed.
#[test]
fn next_to_no_room_in_dev_shm() {
    let programs = Programs::new(&["transfers"]);
    let Some(command) = with_own_shm(&programs.path("transfers")) else { return };
    Running::start(command, &["both", libc_errno::EPERM]).finish("transfers");
}

#[test]
fn fifty_kills_leave_nothing() {
    let programs = Programs::new(&["deaths"]);
    // In a `/dev/shm` of its own, if that can be had: nobody else's files come and go there.
    let path = programs.path("deaths");
    let command = with_own_shm(&path).unwrap_or_else(|| Command::new(path));
    Running::start(command, &["cycles"]).finish("deaths cycles");
}

#[test]
fn operations_of_every_kind_end_with_their_peer() {
    Programs::new(&["deaths"]).run("deaths", &["pending"]);
}

#[test]
fn a_peer_may_die_at_any_moment() {
    Programs::new(&["deaths"]).run("deaths", &["any-moment"]);
}

#[test]
fn a_successor_at_the_same_address_is_served() {
    Programs::new(&["deaths"]).run("deaths", &["replaced"]);
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_dead_predecessor() {
    Programs::new(&["deaths"]).run("deaths", &["restarted"]);
}

#[test]
fn a_sleeping_child_does_not_keep_its_dead_parents_name() {
    Programs::new(&["deaths"]).run("deaths", &["orphaned"]);
}

#[test]
fn a_sleeper_learns_of_its_peers_end() {
    Programs::new(&["deaths"]).run("deaths", &["asleep"]);
}

#[test]
fn six_hundred_endpoints() {
    Programs::new(&["floods"]).run("floods", &["endpoints"]);
}

#[test]
fn cancelled_receives_complete_once() {
    Programs::new(&["floods"]).run("floods", &["cancelled"]);
}

#[test]
fn both_flood_before_either_receives() {
    Programs::new(&["floods"]).run("floods", &["both-ways"]);
}

#[test]
fn messages_that_nobody_waits_for() {
    Programs::new(&["floods"]).run("floods", &["unexpected"]);
}

#[test]
fn a_cut_message_is_not_the_last() {
    Programs::new(&["floods"]).run("floods", &["truncated"]);
}

#[test]
fn a_full_backlog_completes_nothing() {
    Programs::new(&["shortage"]).run("shortage", &["backlog"]);
}

#[test]
fn a_peer_without_descriptors_gets_everything() {
    Programs::new(&["shortage"]).run("shortage", &["descriptors"]);
}

#[test]
fn thousands_of_names_are_forgotten() {
    Programs::new(&["shortage"]).run("shortage", &["names"]);
}

#[test]
fn a_limit_of_file_sizes_ends_nobody() {
    Programs::new(&["shortage"]).run("shortage", &["file-size"]);
}

/// No signal handler, no thread, no word on standard output.
#[test]
fn manners_of_a_guest() {
    Programs::new(&["guest"]).run("guest", &["manners"]);
}

/// The target makes no call, serves everything and sleeps.
#[test]
fn automatic_progress() {
    Programs::new(&["guest"]).run("guest", &["automatic"]);
}

/// A thousand visits of those who say anything but what a peer says.
#[test]
fn visitors_that_mean_harm() {
    Programs::new(&["hostile"]).run("hostile", &["visits", "0"]);
}

/// A peer that writes random words over all memory it shares.
#[test]
fn a_peer_that_scribbles() {
    Programs::new(&["hostile"]).run("hostile", &["scribbles", "5"]);
}

/// Rings are full of other things.
#[test]
fn atomics_that_find_no_room() {
    Programs::new(&["edges"]).run("edges", &["full-rings"]);
}

/// No segment can be larger than a page: everything works, in small pieces.
#[test]
fn one_page_for_everything() {
    Programs::new(&["edges"]).run("edges", &["small-rings"]);
}

/// Whoever opens its whole address space is asked for what is not there.
#[test]
fn addresses_where_nothing_is() {
    Programs::new(&["edges"]).run("edges", &["address-space"]);
}

/// Bytes of after the close are never taken for a good read.
#[test]
fn a_region_closed_under_a_read() {
    Programs::new(&["edges"]).run("edges", &["closed-region"]);
}

#[test]
fn a_receiver_that_breaks_its_ring() {
    Programs::new(&["edges"]).run("edges", &["broken-ring"]);
}

#[test]
fn injected_messages_outlive_their_endpoint() {
    Programs::new(&["edges"]).run("edges", &["injected"]);
}

#[test]
fn a_message_beyond_four_gib() {
    let programs = Programs::new(&["huge"]);
    programs.run("huge", &["none", libc_errno::EPERM]);
    programs.run("huge", &["both", libc_errno::EPERM]);
}

/// Error numbers as arguments of the programs.
mod libc_errno {
    pub(super) const EPERM: &str = "1";
    pub(super) const ENOSYS: &str = "38";
}

/// One case at a time: each has two busy processes, and they watch the time.
static TURN: Mutex<()> = Mutex::new(());

/// Compiled programs.
struct Programs {
    _turn: MutexGuard<'static, ()>,
}

impl Programs {
    fn new(names: &[&str]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = Self { _turn: turn };
        for name in names {
            programs.compile(name);
        }
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{name}"))
    }

    fn compile(&self, name: &str) {
        let library = library();
        let directory = library.parent().expect("the library is in a directory");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let compiled = Command::new("gcc")
            .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("../ffi/include"))
            .arg(root.join("c/hosts").join(name).with_extension("c"))
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", directory.display()))
            .arg("-o")
            .arg(self.path(name))
            .status()
            .expect("run gcc");
        assert!(compiled.success(), "gcc refused {name}.c");
    }

    fn run(&self, name: &str, args: &[&str]) {
        Running::start(Command::new(self.path(name)), args)
            .finish(&format!("{name} {}", args.join(" ")));
    }
}

/// A program with a deadline.
struct Running {
    child: Child,
    late: Instant,
}

impl Running {
    fn start(mut command: Command, args: &[&str]) -> Self {
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start a compiled program");
        Self { child, late: Instant::now() + DEADLINE }
    }

    /// Waits for its good end. It prints nothing on standard output, as nobody asked it to.
    fn finish(mut self, what: &str) {
        let status = self.wait();
        let output = self.child.wait_with_output().expect("read what it printed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(status.is_some_and(|status| status.success()), "{what}: {status:?}\n{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{what}");
    }

    /// `None` when it had to be ended.
    fn wait(&mut self) -> Option<ExitStatus> {
        while Instant::now() < self.late {
            if let Some(status) = self.child.try_wait().expect("wait for a child") {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        // Its children end with it.
        let _ = self.child.kill();
        None
    }
}

/// The program with 1 MiB of `/dev/shm` for itself, `None` where the host does not allow it.
fn with_own_shm(program: &Path) -> Option<Command> {
    let unshare = unshare(&["--mount"])?;
    let mut command = Command::new(&unshare[0]);
    let script = "mount -t tmpfs -o size=1m none /dev/shm && exec \"$0\" \"$@\"";
    command.args(&unshare[1..]).args(["sh", "-c", script]).arg(program);
    Some(command)
}

/// `unshare` with the rights that it needs, `None` where the host grants none.
fn unshare(args: &[&str]) -> Option<Vec<String>> {
    let as_root = ["unshare"].iter().chain(args).map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let as_user = ["unshare", "--user", "--map-root-user"]
        .iter()
        .chain(args)
        .map(|word| (*word).to_owned())
        .collect::<Vec<_>>();
    let works = |command: &Vec<String>| {
        Command::new(&command[0])
            .args(&command[1..])
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let found = [as_root, as_user].into_iter().find(works);
    if found.is_none() {
        eprintln!("skipped: this host lets nobody make namespaces");
    }
    found
}

fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/libfabric.so.1");
    let library = env::var_os("PERCALE_LIB").map_or(built, PathBuf::from);
    let found = library.canonicalize().unwrap_or_default();
    assert!(
        found.exists(),
        "{} does not exist: build the library first, or name one in PERCALE_LIB",
        library.display()
    );
    library
}
