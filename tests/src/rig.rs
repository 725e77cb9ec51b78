//! Programs of two and more processes that are watched from outside. What every run is held to
//! stands here, in one place: a hard deadline, a good end, nothing on standard output, no process
//! left of its group, and, where the host lets namespaces be made, no file in a `/dev/shm` of 1 MiB
//! and no socket name left. What a run took is returned and shown with `--nocapture`.
//!
//! The library is `target/release/libfabric.so.1`, or what `PERCALE_LIB` names; the provider is
//! `PERCALE_PROVIDER`'s, and `shm` if that is not set.

use std::{
    env,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::programs::compile;

/// No program takes longer, on a busy machine either.
const DEADLINE: Duration = Duration::from_secs(90);
/// The same for long runs.
const LONG_DEADLINE: Duration = Duration::from_secs(300);

/// Whether to take the time for what the usual run does in small.
pub fn long() -> bool {
    env::var_os("PERCALE_LONG").is_some_and(|value| value != "0")
}

/// Whether the provider is shared memory; cases that know its inside are for it alone.
pub fn is_shm() -> bool {
    env::var_os("PERCALE_PROVIDER").is_none_or(|value| value == "shm")
}

/// One case at a time: each has busy processes, and they watch the time.
static TURN: Mutex<()> = Mutex::new(());

/// A compiled program, and the turn to run it.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// Set for every run.
    variables: Vec<(&'static str, &'static str)>,
    _turn: MutexGuard<'static, ()>,
}

/// What a run took, children included.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// Processor time of all its processes.
    pub cpu: Duration,
}

impl Program {
    /// Compiles `c/hosts/NAME.c`.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn new(name: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = scratch(&format!("hosts-{name}"));
        compile(&format!("hosts/{name}.c"), &path);
        Self { path, variables: Vec::new(), _turn: turn }
    }

    /// Sets a variable of the environment for its runs.
    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// Runs it to its good end.
    ///
    /// # Panics
    /// If that end is not good, or anything is left.
    pub fn run(&self, args: &[&str]) -> Usage {
        let program = self.path.as_os_str().to_owned();
        let Some(unshare) = unshare(&["--mount", "--net"]) else {
            let mut command = Command::new(program);
            command.args(args);
            return self.start(command).finish(&self.title(args));
        };
        // What is left is looked for again and again, since killed children end in their time.
        let script = "mount -t tmpfs -o size=1m none /dev/shm || exit $?
            ip link set lo up
            \"$0\" \"$@\" || exit $?
            for look in $(seq 100); do
                files=$(ls -A /dev/shm) names=$(grep -c '@percale/' /proc/net/unix)
                [ -z \"$files\" ] && [ \"$names\" = 0 ] && exit 0
                sleep 0.02
            done
            echo \"left: files '$files', $names socket names\" >&2; exit 70";
        let mut command = Command::new(&unshare[0]);
        command.args(&unshare[1..]).args(["sh", "-c", script]).arg(program).args(args);
        self.start(command).finish(&self.title(args))
    }

    /// Starts it in sibling PID namespaces, with an argument more that tells them apart, and waits
    /// for both. Does nothing where the host allows no namespaces.
    ///
    /// # Panics
    /// As [`Program::run`].
    pub fn run_as_siblings(&self, args: &[&str]) {
        let Some(unshare) = unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]) else {
            return;
        };
        let both = ["0", "1"].map(|which| {
            let mut command = Command::new(&unshare[0]);
            command.args(&unshare[1..]).arg(&self.path).arg(which).args(args);
            self.start(command)
        });
        for running in both {
            running.finish(&self.title(args));
        }
    }

    fn title(&self, args: &[&str]) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{} {}", name.trim_start_matches("hosts-"), args.join(" "))
    }

    fn start(&self, mut command: Command) -> Running {
        let cpu = cpu_of_children();
        let child = command
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("start a compiled program");
        Running { child, begin: Instant::now(), cpu }
    }
}

/// A path for files of the tests.
pub fn scratch(name: &str) -> PathBuf {
    // A test's executable is in `target/PROFILE/deps`.
    let executable = env::current_exe().expect("the path of the tests");
    let place = executable.ancestors().nth(3).expect("the target directory").join("tmp");
    std::fs::create_dir_all(&place).expect("a directory for compiled programs");
    place.join(name)
}

struct Running {
    child: Child,
    begin: Instant,
    cpu: Duration,
}

impl Running {
    fn finish(mut self, what: &str) -> Usage {
        let limit = if long() { LONG_DEADLINE } else { DEADLINE };
        let mut status = None;
        while status.is_none() && self.begin.elapsed() < limit {
            thread::sleep(Duration::from_millis(2));
            status = self.child.try_wait().expect("wait for a child");
        }
        let wall = self.begin.elapsed();
        let group = i32::try_from(self.child.id()).expect("a process id");
        if status.is_none() {
            end_group(group);
        }
        let output = self.child.wait_with_output().expect("read what it printed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(status.is_some_and(|status| status.success()), "{what}: {status:?}\n{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{what}");
        // The output is at its end, so that nobody holds it any more; the last may still be ending.
        let late = Instant::now() + Duration::from_secs(2);
        while group_lives(group) {
            assert!(Instant::now() < late, "{what}: processes are left");
            thread::sleep(Duration::from_millis(2));
        }
        let cpu = cpu_of_children().saturating_sub(self.cpu);
        eprint!(
            "{what}: {:.2} s, {:.2} s of processor time\n{said}",
            wall.as_secs_f64(),
            cpu.as_secs_f64()
        );
        Usage { wall, cpu }
    }
}

/// `unshare` with the rights that it needs, `None` where the host grants none.
pub fn unshare(args: &[&str]) -> Option<Vec<String>> {
    static AS_WHO: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let who = AS_WHO.get_or_init(|| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let found = [words(&["unshare"]), words(&["unshare", "--user", "--map-root-user"])]
            .into_iter()
            .find(|who: &Vec<String>| {
                Command::new(&who[0])
                    .args(&who[1..])
                    .args(["--mount", "--net", "--pid", "--fork", "--mount-proc", "true"])
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            });
        if found.is_none() {
            eprintln!("this host lets nobody make namespaces: some checks are left out");
        }
        found
    });
    let args = args.iter().map(|word| (*word).to_owned());
    who.as_ref().map(|who| who.iter().cloned().chain(args).collect())
}

fn cpu_of_children() -> Duration {
    // SAFETY: plain numbers, for which all zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable for the call.
    let got = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(got, 0, "getrusage");
    let time = |t: libc::timeval| {
        Duration::from_micros(t.tv_sec.unsigned_abs() * 1_000_000 + t.tv_usec.unsigned_abs())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn end_group(group: i32) {
    // SAFETY: no memory is involved; the group is of a child that has not been waited for.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

fn group_lives(group: i32) -> bool {
    // SAFETY: no memory is involved, and signal 0 only asks.
    unsafe { libc::kill(-group, 0) == 0 }
}
