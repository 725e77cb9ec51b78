//! What ended jobs of fabric and MPI libraries have left in `/dev/shm`. Percale leaves nothing there.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{Finding, State};

const DIRECTORY: &str = "/dev/shm";
const CHECK: &str = "leftovers";
/// Files that are listed; of more, the number is told.
const LISTED: usize = 10;
/// Files this young may be between two steps of a job that starts.
const YOUNG: u64 = 10;

/// A file of a known library that no process maps.
#[derive(Debug, PartialEq, Eq)]
struct Leftover {
    path: PathBuf,
    library: &'static str,
    bytes: u64,
    owner: u32,
    /// Seconds since it was changed.
    age: u64,
}

pub(super) fn check() -> Finding {
    let mut found = look(Path::new(DIRECTORY), &mapped());
    if found.is_empty() {
        let nothing =
            format!("no files of fabric or MPI libraries in {DIRECTORY} without a process");
        return Finding::new(CHECK, State::Ok, nothing);
    }
    found.sort_by_key(|each| std::cmp::Reverse(each.age));
    let bytes: u64 = found.iter().map(|each| each.bytes).sum();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut details: Vec<String> =
        found.iter().take(LISTED).map(|each| line(each, &users)).collect();
    if found.len() > LISTED {
        details.push(format!("and {} more", found.len() - LISTED));
    }
    let summary = format!(
        "{} files in {DIRECTORY}, {} KiB, that no process to be seen from here has mapped",
        found.len(),
        bytes >> 10
    );
    Finding::new(CHECK, State::Warning, summary)
        .details(details)
        .fix("remove them if no job of their owners runs, in another container either")
}

fn line(each: &Leftover, users: &str) -> String {
    format!(
        "{} ({}): {} KiB, of {}, {} old",
        each.path.display(),
        each.library,
        each.bytes >> 10,
        user(each.owner, users),
        age(each.age)
    )
}

/// The name of a user, or the number of one without.
fn user(id: u32, users: &str) -> String {
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("user {id}"))
}

fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Whose files have such names.
fn library(name: &str) -> Option<&'static str> {
    let numbers = |text: &str| {
        let mut parts = text.split(':');
        let all =
            parts.by_ref().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        all && text.split(':').count() == 3
    };
    let known = [
        ("mpich_shm_", "MPICH"),
        ("mpich-", "MPICH"),
        ("Intel_MPI", "Intel MPI"),
        ("shm-col-space", "Intel MPI"),
        ("vader_segment", "Open MPI"),
        ("sm_segment", "Open MPI"),
        ("osc_rdma", "Open MPI"),
        ("ompi", "Open MPI"),
        ("openmpi", "Open MPI"),
        ("ucx_shm", "UCX"),
        ("psm2_shm", "PSM2"),
        ("psm3_shm", "PSM3"),
        ("nccl-", "NCCL"),
        ("sm2_", "libfabric sm2"),
        ("fi_shm_", "libfabric"),
    ];
    if numbers(name) {
        // Process, user, endpoint.
        return Some("libfabric shm");
    }
    known.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, library)| library)
}

fn look(directory: &Path, mapped: &HashSet<PathBuf>) -> Vec<Leftover> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let leftover = |entry: fs::DirEntry| {
        let library = library(entry.file_name().to_str()?)?;
        let (path, metadata) = (entry.path(), entry.metadata().ok()?);
        if !metadata.is_file() || mapped.contains(&path) {
            return None;
        }
        let changed = metadata.modified().ok()?;
        let age = SystemTime::now().duration_since(changed).unwrap_or_default().as_secs();
        let (bytes, owner) = (metadata.blocks() * 512, metadata.uid());
        (age >= YOUNG).then_some(Leftover { path, library, bytes, owner, age })
    };
    entries.filter_map(leftover).collect()
}

/// Files of the directory that processes have mapped, as far as they may be looked at.
fn mapped() -> HashSet<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps = processes
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| fs::read_to_string(entry.path().join("maps")).ok());
    let mut found = HashSet::new();
    for text in maps {
        found.extend(paths(&text));
    }
    found
}

fn paths(maps: &str) -> impl Iterator<Item = PathBuf> {
    maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find(DIRECTORY)?..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries() {
        for (name, owner) in [
            ("21851:0:0", Some("libfabric shm")),
            ("mpich_shm_19aff403_0", Some("MPICH")),
            ("ucx_shm_posix_7f", Some("UCX")),
            ("vader_segment.host.0", Some("Open MPI")),
            ("21851:0", None),
            ("::", None),
            ("1:2:3:4", None),
            ("pulse-shm-1", None),
            ("sem.mine", None),
        ] {
            assert_eq!(library(name), owner, "{name}");
        }
    }

    #[test]
    fn what_is_mapped_or_young_is_none() {
        let root = std::env::temp_dir().join(format!("percale-leftovers-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        for name in ["1:2:3", "mpich_shm_a", "nccl-b", "mine"] {
            let file = fs::File::create(root.join(name)).unwrap();
            let old = SystemTime::now() - std::time::Duration::from_secs(3 * 86_400);
            file.set_modified(old).unwrap();
        }
        fs::File::create(root.join("nccl-b")).unwrap().set_modified(SystemTime::now()).unwrap();
        let mapped = HashSet::from([root.join("mpich_shm_a")]);
        let found = look(&root, &mapped);
        assert_eq!(found.len(), 1, "{found:?}");
        let text = line(&found[0], &format!("somebody:x:{}:0::/:/bin/sh\n", found[0].owner));
        assert!(text.contains("1:2:3 (libfabric shm): 0 KiB, of somebody, 3 d old"), "{text}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn mappings() {
        let text =
            "7f0-7f1 rw-s 00000000 00:17 5     /dev/shm/mpich_shm_a\n7f1-7f2 r-xp 0 0:1 6 /lib/x\n";
        let found: Vec<PathBuf> = paths(text).collect();
        assert_eq!(found, [PathBuf::from("/dev/shm/mpich_shm_a")]);
        assert_eq!(user(7, "root:x:0:0\nx:x:7:7\n"), "x");
        assert_eq!(user(8, ""), "user 8");
        assert_eq!((age(5), age(600)), ("5 s".to_owned(), "10 min".to_owned()));
    }
}
