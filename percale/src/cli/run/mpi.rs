//! MPI libraries: which one a command is of, and what sends its traffic through libfabric.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{Library, Setting};

/// A known MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mpi {
    Mpich,
    Intel,
    Open,
}

/// Which MPI gets its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Choice {
    /// The one that the command is of
    Auto,
    /// None
    None,
    Mpich,
    Intel,
    Openmpi,
    /// Every known one; they do not disturb each other
    All,
}

/// What other hosts of an Open MPI job are handed.
const HANDED_ON: [&str; 2] = ["LD_LIBRARY_PATH", "FI_PROVIDER"];
/// How long a launcher may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(10);

impl Choice {
    /// The MPIs that a command gets the settings of.
    pub(super) fn of(self, program: &OsStr) -> Vec<Mpi> {
        match self {
            Self::Auto => found(program),
            Self::None => Vec::new(),
            Self::Mpich => vec![Mpi::Mpich],
            Self::Intel => vec![Mpi::Intel],
            Self::Openmpi => vec![Mpi::Open],
            Self::All => Mpi::ALL.to_vec(),
        }
    }
}

impl Mpi {
    const ALL: [Self; 3] = [Self::Mpich, Self::Intel, Self::Open];

    /// Its name.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
            Self::Open => "Open MPI",
        }
    }

    /// What makes it use libfabric for all of its traffic.
    pub(super) fn settings(self, provider: Option<&str>, library: &Library) -> Vec<Setting> {
        match self {
            Self::Mpich => vec![
                Setting::new("MPIR_CVAR_CH4_NETMOD", "ofi", "MPICH may have UCX, and prefer it"),
                Setting::new(
                    "MPIR_CVAR_NOLOCAL",
                    "1",
                    "else ranks of a host use MPICH's own memory",
                ),
            ],
            Self::Intel => vec![
                Setting::new(
                    "I_MPI_FABRICS",
                    "ofi",
                    "else ranks of a host use Intel MPI's own memory",
                ),
                Setting::new(
                    "I_MPI_OFI_LIBRARY_INTERNAL",
                    "0",
                    "else it may take its own libfabric",
                ),
                Setting::new("I_MPI_OFI_LIBRARY", library.folder.join("libfabric.so.1"), ""),
            ],
            Self::Open => open_mpi(provider),
        }
    }

    /// Adds to its launcher's arguments what no variable can say.
    pub(super) fn complete(self, command: &mut Vec<OsString>, settings: &[Setting]) {
        if self != Self::Open || !is_launcher(&command[0]) {
            return;
        }
        let handed_on = |setting: &&Setting| HANDED_ON.contains(&setting.name);
        let switches: Vec<OsString> = settings
            .iter()
            .filter(handed_on)
            .flat_map(|setting| ["-x", setting.name].map(OsString::from))
            .collect();
        command.splice(1..1, switches);
    }
}

/// Left alone it uses shared memory of its own, and of libfabric neither shm nor tcp. What it has for
/// messages, mtl/ofi, wants a provider that reaches other hosts; btl/ofi is for shm.
fn open_mpi(provider: Option<&str>) -> Vec<Setting> {
    const OTHERS: &str = "else ranks of a host use Open MPI's own memory";
    const EXCLUDED: &str = "Open MPI leaves shm and tcp out";
    if provider == Some("shm") {
        return vec![
            Setting::new("OMPI_MCA_pml", "ob1", ""),
            Setting::new("OMPI_MCA_btl", "ofi,self", OTHERS),
            Setting::new("OMPI_MCA_btl_ofi_mode", "2", "messages, too, and not windows alone"),
            Setting::new("OMPI_MCA_btl_ofi_provider_include", "shm", EXCLUDED),
            Setting::new("OMPI_MCA_osc", "rdma", "windows over btl/ofi"),
        ];
    }
    // A list of providers to leave out chooses none.
    let include = provider.filter(|list| !list.starts_with('^')).unwrap_or("tcp");
    let include = if include == "verbs" { "verbs;ofi_rxm" } else { include };
    vec![
        Setting::new("OMPI_MCA_pml", "cm", OTHERS),
        Setting::new("OMPI_MCA_mtl", "ofi", ""),
        Setting::new("OMPI_MCA_mtl_ofi_provider_include", include, EXCLUDED),
        Setting::new("OMPI_MCA_osc", "^ucx", "windows over messages"),
    ]
}

/// The MPI of a launcher, by what it says of itself, or of a program, by what it is linked with. Of
/// what cannot be looked into (scripts, Python, the launchers of clusters) all.
fn found(program: &OsStr) -> Vec<Mpi> {
    let Some(path) = in_path(program) else { return Vec::new() };
    if is_launcher(program) {
        return match version_of(&path).as_deref().and_then(by_version) {
            Some(mpi) => vec![mpi],
            None => Mpi::ALL.to_vec(),
        };
    }
    match fs::read(&path) {
        Ok(bytes) => by_links(&bytes),
        Err(_) => Mpi::ALL.to_vec(),
    }
}

fn is_launcher(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    ["mpiexec", "mpirun"].iter().any(|start| name.starts_with(start))
        || ["orterun", "prterun", "oshrun"].contains(&&*name)
}

fn by_version(text: &str) -> Option<Mpi> {
    let says = |word: &str| text.contains(word);
    if says("Intel(R) MPI") {
        Some(Mpi::Intel)
    } else if says("HYDRA") {
        Some(Mpi::Mpich)
    } else if says("Open MPI") || says("OpenRTE") || says("PRTE") || says("prterun") {
        Some(Mpi::Open)
    } else {
        None
    }
}

/// By the names in the tables of an executable.
fn by_links(bytes: &[u8]) -> Vec<Mpi> {
    // Names of a table stand between zeros.
    let names = |name: &str| {
        let name = [b"\0", name.as_bytes(), b"\0"].concat();
        bytes.windows(name.len()).any(|part| part == name)
    };
    if names("libmpi.so.40") {
        return vec![Mpi::Open];
    }
    // One interface of both.
    if names("libmpi.so.12") || names("libmpich.so.12") {
        return vec![Mpi::Mpich, Mpi::Intel];
    }
    let is_program = bytes.starts_with(b"\x7fELF") && names("libfabric.so.1");
    if is_program { Vec::new() } else { Mpi::ALL.to_vec() }
}

/// What a launcher prints about itself; `None` if it does not end in time.
fn version_of(launcher: &Path) -> Option<String> {
    let mut child = Command::new(launcher)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    ended(&mut child)?;
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    Some(text)
}

fn ended(child: &mut Child) -> Option<()> {
    let late = Instant::now() + PATIENCE;
    while Instant::now() < late {
        match child.try_wait() {
            Ok(Some(_)) => return Some(()),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// The file that a command's first word starts.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    let named = Path::new(program);
    if named.components().count() > 1 || named.is_absolute() {
        return Some(named.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_whose_they_are() {
        assert_eq!(by_version("HYDRA build details:\n    Version: 5.0.2"), Some(Mpi::Mpich));
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.19 (HYDRA)";
        assert_eq!(by_version(intel), Some(Mpi::Intel));
        assert_eq!(by_version("mpirun (Open MPI) 5.0.11"), Some(Mpi::Open));
        assert_eq!(by_version("something"), None);
    }

    #[test]
    fn programs_are_linked_with_theirs() {
        assert_eq!(by_links(b"\x7fELF..\0libmpi.so.40\0"), [Mpi::Open]);
        assert_eq!(by_links(b"\x7fELF..\0libmpi.so.12\0"), [Mpi::Mpich, Mpi::Intel]);
        assert_eq!(by_links(b"\x7fELF..\0libfabric.so.1\0"), []);
        assert_eq!(by_links(b"#!/bin/sh\nlibmpi.so.12"), Mpi::ALL);
    }

    #[test]
    fn a_launcher_of_open_mpi_hands_variables_on() {
        let mut command: Vec<OsString> = ["mpirun", "-n", "2", "x"].map(Into::into).to_vec();
        let settings =
            [Setting::forced("FI_PROVIDER", "tcp"), Setting::forced("OMPI_MCA_pml", "cm")];
        Mpi::Mpich.complete(&mut command, &settings);
        assert_eq!(command.len(), 4);
        Mpi::Open.complete(&mut command, &settings);
        assert_eq!(command, ["mpirun", "-x", "FI_PROVIDER", "-n", "2", "x"].map(OsString::from));
    }

    #[test]
    fn components_of_open_mpi_by_provider() {
        let value = |provider, name: &str| {
            let settings = open_mpi(provider);
            settings.into_iter().find(|s| s.name == name).map(|s| s.value)
        };
        assert_eq!(value(Some("shm"), "OMPI_MCA_btl"), Some("ofi,self".into()));
        let include = "OMPI_MCA_mtl_ofi_provider_include";
        assert_eq!(value(None, include), Some("tcp".into()));
        assert_eq!(value(Some("^shm"), include), Some("tcp".into()));
        assert_eq!(value(Some("tcp;ofi_rxm"), include), Some("tcp;ofi_rxm".into()));
    }
}
