//! A storage server and its clients: remote procedure calls with bulk transfers, clients that are
//! killed in the middle of them, and a server that sleeps when there is nothing to do.
//!
//! The programs in `c/rpc` count that each operation completes once and check every byte; here
//! processes are started, killed and watched from outside.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use percale_tests::{
    programs::{Running, compile},
    rig::long,
};

/// Providers that serve it.
const PROVIDERS: [&str; 3] = ["shm", "tcp", "tcp;ofi_rxm"];

/// No program takes longer, on a busy machine either, and in the long run.
const DEADLINE: Duration = Duration::from_secs(900);

/// Clients call at once and leave; the server is as before, and asleep.
#[test]
fn calls_and_bulk_transfers() {
    for provider in PROVIDERS {
        let job = Job::new(provider, "calls");
        let server = job.server();
        job.client(20, 1).finish_calls(20);
        let descriptors = server.descriptors();

        let mut clients: Vec<_> = (2..6).map(|seed| job.lingering(400, seed)).collect();
        for client in &mut clients {
            assert_eq!(client.running.read(5), "done\n");
        }
        // All are connected, nobody has anything to do.
        let asleep: Vec<_> = clients.iter().map(|client| &client.running).collect();
        assert_sleeping(&server.running, &asleep);
        for client in clients {
            client.finish_calls(400);
        }
        assert_sleeping(&server.running, &[]);
        assert_eq!(server.settled_descriptors(descriptors), descriptors);
        server.assert_no_files();

        let account = job.stop(server);
        assert_eq!(account["goodbye"], 5);
        assert_eq!(account["lost"], 0);
        assert_eq!(account["calls"], 20 + 4 * 400 + 5 + 1);
        assert!(account["slept"] > 0);
    }
}

/// Clients die at random moments, many times. All others are served, and nothing is left of those.
#[test]
fn clients_die_at_any_moment() {
    const ROUNDS: u64 = 40;
    for provider in PROVIDERS {
        let job = Job::new(provider, "deaths");
        let server = job.server();
        let mut dice = Dice(0x2545_f491_4f6c_dd1d);
        let steady = job.client(3000, 1);
        let (mut descriptors, mut resident) = (0, 0);
        for round in 0..ROUNDS {
            let seeds = [100 + 2 * round, 101 + 2 * round];
            let victims = seeds.map(|seed| job.client(1_000_000, seed));
            for victim in victims {
                thread::sleep(Duration::from_micros(dice.below(40_000)));
                victim.running.kill("a client");
            }
            if round == ROUNDS / 4 {
                descriptors = server.settled_descriptors(usize::MAX);
                resident = server.resident();
            }
        }
        job.client(50, 2).finish_calls(50);
        steady.finish_calls(3000);
        // The steady client was there when descriptors were counted.
        assert!(server.settled_descriptors(descriptors) <= descriptors);
        let growth = server.resident().saturating_sub(resident);
        assert!(growth < 4 << 10, "resident memory grew by {growth} KiB");
        assert_sleeping(&server.running, &[]);
        server.assert_no_files();
        let account = job.stop(server);
        assert_eq!(account["goodbye"], 2);
        assert!(account["inserted"] >= ROUNDS && account["lost"] > 0, "{account:?}");
    }
}

/// Clients come, die or leave, and others come at their addresses, thousands of times in the long run.
/// Each is served; the server is in the end what it was.
#[test]
fn clients_come_die_and_return() {
    const CLIENTS: u64 = 64;
    let events = if long() { 5000 } else { 300 };
    for provider in PROVIDERS {
        let job = Job::new(provider, "returns");
        let server = job.server_of_returning();
        let mut dice = Dice(0x1f83_d9ab_fb41_bd6b);
        let mut seeds = 1..;
        let mut come = |slot: u64| Some(job.returning(slot, seeds.next().expect("a number")));
        let mut clients: Vec<_> = (0..CLIENTS).map(&mut come).collect();
        let (mut descriptors, mut resident) = (0, 0);
        for event in 0..events {
            let slot = dice.below(CLIENTS);
            let client = &mut clients[slot as usize];
            if let Some(before) = client.take() {
                // Some leave, the others die.
                if dice.below(8) == 0 {
                    before.finish();
                } else {
                    before.running.kill("a client");
                }
            }
            // Some places stay free for a while.
            if dice.below(5) != 0 {
                *client = come(slot);
            }
            thread::sleep(Duration::from_micros(dice.below(10_000)));
            if event == events / 4 {
                clients.iter_mut().filter_map(Option::take).for_each(|client| {
                    client.running.kill("a client");
                });
                descriptors = server.settled_descriptors(usize::MAX);
                resident = server.resident();
                clients = (0..CLIENTS).map(&mut come).collect();
            }
        }
        clients.into_iter().flatten().for_each(Client::finish);
        job.client(50, 0).finish_calls(50);
        assert_eq!(server.settled_descriptors(descriptors), descriptors);
        let growth = server.resident().saturating_sub(resident);
        assert!(growth < 4 << 10, "resident memory grew by {growth} KiB");
        assert_sleeping(&server.running, &[]);
        server.assert_no_files();
        let account = job.stop(server);
        assert!(account["inserted"] > events && account["goodbye"] > events / 20, "{account:?}");
    }
}

/// The same where the kernel copies nothing between processes.
#[test]
fn clients_die_while_bytes_go_through_rings() {
    const ROUNDS: u64 = 20;
    let job = Job::new("shm", "rings").with("FI_SHM_DISABLE_CMA", "1");
    let server = job.server();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let steady = job.client(1000, 1);
    for round in 0..ROUNDS {
        let victim = job.client(1_000_000, 100 + round);
        thread::sleep(Duration::from_micros(dice.below(60_000)));
        victim.running.kill("a client");
    }
    steady.finish_calls(1000);
    assert_eq!(job.stop(server)["goodbye"], 1);
}

/// Clients are stopped in the middle of transfers: the server sleeps, and all goes on with them.
#[test]
fn clients_that_are_stopped_cost_nothing() {
    for provider in PROVIDERS {
        let job = Job::new(provider, "stopped");
        let server = job.server();
        for round in 0..2 {
            let clients = [1, 2, 3].map(|seed| job.client(1_000_000, 10 * round + seed));
            thread::sleep(Duration::from_millis(150));
            clients.iter().for_each(|client| client.signal("-STOP"));
            assert_sleeping(&server.running, &[]);
            job.client(30, 9).finish_calls(30);
            clients.iter().for_each(|client| client.signal("-CONT"));
            thread::sleep(Duration::from_millis(50));
            for client in clients {
                client.running.kill("a client");
            }
        }
        assert_eq!(job.stop(server)["goodbye"], 2);
    }
}

/// The server is killed under its clients and comes back at its address: all calls are answered.
#[test]
fn the_server_comes_back() {
    const KILLS: u64 = 10;
    const CALLS: u64 = 4000;
    for provider in PROVIDERS {
        let job = Job::new(provider, "server");
        let mut server = job.server();
        let mut clients = [1, 2, 3].map(|seed| job.telling(CALLS, seed));
        for client in &mut clients {
            assert_eq!(client.running.read(6), "begun\n");
        }
        for _ in 0..KILLS {
            thread::sleep(Duration::from_millis(40));
            server.running.kill("the server");
            server = job.server();
        }
        let mut failed = 0;
        for client in clients {
            let account = client.account();
            assert_eq!(account["posted"], account["completed"]);
            assert_eq!(account["made"], CALLS + 1);
            failed += account["failed"];
        }
        assert!(failed >= KILLS, "{failed} calls failed");
        let account = job.stop(server);
        assert_eq!(account["goodbye"], 3);
    }
}

/// One case at a time: each has several busy processes, and they watch the time.
static TURN: Mutex<()> = Mutex::new(());

/// The numbers that a program counted, by their names.
type Account = HashMap<String, u64>;

/// Programs, and where the address of the server is.
struct Job {
    _turn: MutexGuard<'static, ()>,
    provider: &'static str,
    name: String,
    directory: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Job {
    fn new(provider: &'static str, case: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rpc");
        fs::create_dir_all(&directory).expect("a directory");
        for program in ["server", "client"] {
            compile(&format!("rpc/{program}.c"), &directory.join(program));
        }
        let name = format!("rpc-{case}-{}", std::process::id());
        Self { _turn: turn, provider, name, directory, variables: Vec::new() }
    }

    /// With a variable in the environment of all programs.
    fn with(mut self, variable: &'static str, value: &'static str) -> Self {
        self.variables.push((variable, value));
        self
    }

    /// An address of this run's: of a name, or of the host's many own addresses one that no other run
    /// has at this time.
    fn place(&self, number: u64) -> [String; 2] {
        if self.provider == "shm" {
            return [format!("{}-{number}", self.name), "1".to_owned()];
        }
        let [_, a, b, c] = std::process::id().to_be_bytes();
        [format!("127.{}.{b}.{c}", 64 | a), (28_000 + number).to_string()]
    }

    fn address_file(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Starts a server, always at the same address, and waits until it serves.
    fn server(&self) -> Server {
        self.start_server("")
    }

    /// One whose clients return at their addresses.
    fn server_of_returning(&self) -> Server {
        self.start_server("return")
    }

    fn start_server(&self, way: &str) -> Server {
        let file = self.address_file();
        let _ = fs::remove_file(&file);
        let [node, service] = self.place(0);
        let args = [self.provider, path_text(&file), &node, &service, way];
        let running = Running::start(self.program("server"), &args, DEADLINE);
        let late = Instant::now() + Duration::from_secs(10);
        while !file.exists() {
            if Instant::now() > late {
                panic!("no server: {}", running.output("server"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Server { running }
    }

    fn client(&self, calls: u64, seed: u64) -> Client {
        self.start(calls, seed, &[])
    }

    /// One that stays connected after its calls, until its input ends.
    fn lingering(&self, calls: u64, seed: u64) -> Client {
        self.start(calls, seed, &["linger"])
    }

    /// One that says when it has been served.
    fn telling(&self, calls: u64, seed: u64) -> Client {
        self.start(calls, seed, &["tell"])
    }

    /// One at an address that others have had, which calls now and then until its input ends.
    fn returning(&self, slot: u64, seed: u64) -> Client {
        let [node, service] = self.place(1 + slot);
        self.start(1, seed, &["ponder", &node, &service])
    }

    /// Lets a client stop the server; returns the server's account.
    fn stop(&self, server: Server) -> Account {
        self.start(0, 99, &["stop"]).running.output("the last client");
        let account = parse(&server.running.output("server"));
        let _ = fs::remove_file(self.address_file());
        assert_eq!(account["posted"], account["completed"]);
        account
    }

    fn start(&self, calls: u64, seed: u64, more: &[&str]) -> Client {
        let file = self.address_file();
        let (calls, seed) = (calls.to_string(), seed.to_string());
        let args = [&[self.provider, path_text(&file), &calls, &seed], more].concat();
        let running = Running::start_with_input(self.program("client"), &args, DEADLINE);
        Client { running }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        command.envs(self.variables.iter().copied());
        command
    }
}

struct Client {
    running: Running,
}

impl Client {
    /// Waits for its good end, without any failed call.
    fn finish_calls(self, calls: u64) {
        let account = self.account();
        assert_eq!((account["made"], account["failed"]), (calls + 1, 0));
        assert_eq!(account["posted"], account["completed"]);
        assert_eq!(account["cancelled"], (calls + 1) / 16);
    }

    /// Has it end, and waits for that. None of its calls has failed.
    fn finish(self) {
        let account = self.account();
        assert_eq!(account["failed"], 0, "{account:?}");
        assert_eq!(account["posted"], account["completed"]);
    }

    fn signal(&self, signal: &str) {
        let id = self.running.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("run kill");
        assert!(sent.success());
    }

    fn account(mut self) -> Account {
        drop(self.running.input());
        parse(&self.running.output("client"))
    }
}

struct Server {
    running: Running,
}

impl Server {
    fn descriptors(&self) -> usize {
        entries(&PathBuf::from(format!("/proc/{}/fd", self.running.id())))
    }

    /// The descriptors that are left when the ends of all peers have been seen, or `wanted`.
    fn settled_descriptors(&self, wanted: usize) -> usize {
        let late = Instant::now() + Duration::from_millis(500);
        while Instant::now() < late && self.descriptors() != wanted {
            thread::sleep(Duration::from_millis(10));
        }
        self.descriptors()
    }

    /// Nothing of it is in `/dev/shm`, where it could stay behind.
    fn assert_no_files(&self) {
        let of_process = PathBuf::from(format!("/proc/{}", self.running.id()));
        let maps = fs::read_to_string(of_process.join("maps")).expect("a running server");
        assert!(!maps.contains(" /dev/shm/"), "{maps}");
        for descriptor in fs::read_dir(of_process.join("fd")).expect("a running server") {
            let target = fs::read_link(descriptor.expect("a descriptor").path());
            assert!(target.is_ok_and(|target| !target.starts_with("/dev/shm")));
        }
    }

    /// KiB.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.id()));
        let status = status.expect("a running server");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// Processes that use next to no time in a second.
fn assert_sleeping(server: &Running, clients: &[&Running]) {
    thread::sleep(Duration::from_millis(200));
    let all: Vec<_> = clients.iter().chain([&server]).map(|running| running.id()).collect();
    let before: Vec<_> = all.iter().map(|id| ticks(*id)).collect();
    thread::sleep(Duration::from_secs(1));
    for (id, before) in all.iter().zip(before) {
        let used = ticks(*id) - before;
        assert!(used <= 1, "process {id} used {used} hundredths of a second while idle");
    }
}

/// Processor time of a process, in hundredths of a second.
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("a running process");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().expect("a number")).sum()
}

/// `name number name number ...`
fn parse(line: &str) -> Account {
    let words: Vec<_> = line.split_whitespace().collect();
    let number = |word: &str| word.parse().expect("a number");
    let account: Account =
        words.chunks_exact(2).map(|pair| (pair[0].to_owned(), number(pair[1]))).collect();
    println!("{}", line.trim_end());
    account
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).expect("a directory").count()
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A small generator: what it draws is the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
