//! Which libfabric the processes below this one have mapped, looked up while they run.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use fabric_core::wait::Signal;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify,
};

use super::library::Library;

/// Between two looks, at first; this part of the time goes into looking at most.
const PERIOD: Duration = Duration::from_millis(20);
const SHARE: u32 = 50;
/// Looks at intervals of this length that follow when somebody has opened the library: it is mapped
/// a moment later.
const SOON: Duration = Duration::from_micros(500);
const LOOKS: usize = 10;

/// Watches over what this process starts.
pub(super) struct Watch {
    stop: Signal,
    opened: Option<OwnedFd>,
}

/// A process that has, or had, a libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) pid: u32,
    pub(super) name: String,
    /// The library's.
    pub(super) path: PathBuf,
}

/// What has been seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sightings: Vec<Sighting>,
    /// Times that somebody has opened the library.
    pub(super) opened: usize,
}

impl Watch {
    /// Begins to note who opens the library, as far as the kernel tells.
    pub(super) fn open(library: &Library) -> std::io::Result<Self> {
        let opened = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
            .and_then(|notes| {
                inotify::add_watch(&notes, &library.file, inotify::WatchFlags::OPEN)?;
                Ok(notes)
            })
            .ok();
        let stop = Signal::new().map_err(|e| std::io::Error::from_raw_os_error(e.get()))?;
        Ok(Self { stop, opened })
    }

    /// Watches while `body` runs.
    pub(super) fn until<R>(
        self,
        body: impl FnOnce() -> std::io::Result<R>,
    ) -> std::io::Result<(R, Seen)> {
        thread::scope(|scope| {
            let watching = scope.spawn(|| self.watch());
            let done = body();
            self.stop.set();
            let seen = watching.join().unwrap_or_default();
            Ok((done?, seen))
        })
    }

    fn watch(&self) -> Seen {
        let mut seen = Seen::default();
        let mut known = BTreeMap::new();
        loop {
            let begin = Instant::now();
            look(&mut known);
            if self.ended(PERIOD.max(begin.elapsed() * SHARE)) {
                break;
            }
            let opened = self.news();
            seen.opened += opened;
            if opened > 0 {
                for _ in 0..LOOKS {
                    look(&mut known);
                    thread::sleep(SOON);
                }
            }
        }
        seen.opened += self.news();
        let sighting = |((pid, _), found): (Key, Found)| {
            let name = found.name;
            found.libraries.into_iter().map(move |path| Sighting { pid, name: name.clone(), path })
        };
        seen.sightings = known.into_iter().flat_map(sighting).collect();
        seen
    }

    /// Waits for news, at most so long; whether it is over.
    fn ended(&self, period: Duration) -> bool {
        let timeout =
            Timespec { tv_sec: period.as_secs() as i64, tv_nsec: period.subsec_nanos().into() };
        let stop = self.stop.as_fd();
        let mut descriptors = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        if let Some(opened) = &self.opened {
            descriptors.push(PollFd::from_borrowed_fd(opened.as_fd(), PollFlags::IN));
        }
        let _ = poll(&mut descriptors, Some(&timeout));
        descriptors[0].revents().contains(PollFlags::IN)
    }

    /// How often the library has been opened since this was asked.
    fn news(&self) -> usize {
        let Some(notes) = &self.opened else { return 0 };
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut notes = inotify::Reader::new(notes, &mut room);
        std::iter::from_fn(|| notes.next().ok().map(|_| ())).count()
    }
}

/// A process number and when it began: numbers are used again.
type Key = (u32, u64);

/// What is known of a process.
#[derive(Debug, Default)]
struct Found {
    name: String,
    libraries: Vec<PathBuf>,
}

/// Looks at each process below this one.
fn look(known: &mut BTreeMap<Key, Found>) {
    for process in descendants() {
        let libraries = mapped(process.pid);
        if libraries.is_empty() {
            continue;
        }
        let found = known.entry((process.pid, process.began)).or_default();
        found.name = process.name;
        for library in libraries {
            if !found.libraries.contains(&library) {
                found.libraries.push(library);
            }
        }
    }
}

/// A line of the table of processes.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    began: u64,
}

impl Process {
    /// From `/proc/PID/stat`: the name stands in brackets, and may have any in it.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let parent = words.nth(1)?.parse().ok()?;
        // The start time is word 22, counted from the number, which is the first.
        let began = words.nth(17)?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, parent, name: name.to_owned(), began })
    }
}

fn descendants() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for entry in folder.flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let Some(process) = stat.ok().as_deref().and_then(Process::parse) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut next = children.remove(&std::process::id()).unwrap_or_default();
    while let Some(process) = next.pop() {
        next.extend(children.remove(&process.pid).unwrap_or_default());
        found.push(process);
    }
    found
}

/// The libfabrics that a process has mapped; none of one that may not be looked at.
fn mapped(pid: u32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut told = HashSet::new();
    maps.lines().filter_map(libfabric).filter(|path| told.insert(path.clone())).collect()
}

/// The file of a line of mappings, if it is a libfabric.
fn libfabric(line: &str) -> Option<PathBuf> {
    let path = &line[line.find('/')?..];
    let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
    let name = path.file_name()?.to_str()?;
    name.starts_with("libfabric.so").then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table() {
        let stat = "77 (a) (b) S 5 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let process = Process { pid: 77, parent: 5, name: "a) (b".to_owned(), began: 4242 };
        assert_eq!(Process::parse(stat), Some(process));
        assert_eq!(Process::parse("77 (x"), None);
    }

    #[test]
    fn lines_of_mappings() {
        let line = "7f00-7f01 r-xp 00000000 08:01 77   /opt/a b/libfabric.so.1 (deleted)";
        assert_eq!(libfabric(line), Some("/opt/a b/libfabric.so.1".into()));
        assert_eq!(libfabric("7f00-7f01 rw-p 00000000 00:00 0"), None);
        assert_eq!(libfabric("7f00-7f01 rw-p 00000000 08:01 5 /lib/libfab.so"), None);
    }

    #[test]
    fn a_child_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let seen = descendants().into_iter().any(|process| process.pid == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
    }
}
