//! `percale run`: programs on the library, their status, their signals, and what is told of them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use percale_tests::{library, rig::scratch};

use super::{free_port, percale, percale_in_time, text};

/// What `percale run` with these arguments does; `None` without the command.
fn run(args: &[&str]) -> Option<Output> {
    Some(percale_in_time()?.arg("run").args(args).output().expect("run the command"))
}

/// A launcher that says whose it is.
fn launcher(says: &str) -> String {
    let folder = scratch(&format!("run-{}", says.split(' ').next().unwrap_or_default()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("mpirun");
    fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("one's own file");
    path.to_str().expect("letters").to_owned()
}

#[test]
fn processes_and_their_library_are_told() {
    let port = free_port();
    let script = format!(
        "fi_pingpong -p shm -e rdm -B {port} & sleep 1; fi_pingpong -p shm -e rdm -P {port} 127.0.0.1
         sleep 0.2; wait"
    );
    let Some(output) = run(&["--provider", "shm", "--", "sh", "-c", &script]) else { return };
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    assert!(told.contains("percale: FI_PROVIDER=shm\n"), "{told}");
    assert!(told.contains("on this library: fi_pingpong"), "{told}");
    assert!(!told.contains("another library"), "{told}");
}

#[test]
fn another_library_is_told() {
    let Some(other) = ["x86_64", "aarch64"]
        .map(|arch| format!("/usr/lib/{arch}-linux-gnu"))
        .into_iter()
        .find(|folder| Path::new(folder).join("libfabric.so.1").exists())
    else {
        return eprintln!("there is no other library");
    };
    let elsewhere = format!("LD_LIBRARY_PATH={other}");
    let waits = ["env", &elsewhere, "timeout", "1", "fi_pingpong", "-B"];
    let port = free_port();
    let Some(output) = run(&[&["-q", "--"], &waits[..], &[&port]].concat()) else { return };
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{told}");
    assert!(told.contains("warning: 1 process on another library"), "{told}");
    assert!(told.contains("LD_PRELOAD="), "{told}");
}

#[test]
fn the_status_is_the_programs() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let Some(output) = run(&["-q", "--", "sh", "-c", script]) else { return };
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
    }
    for (program, status) in [("/nowhere/at/all", 127), ("/", 126)] {
        let Some(output) = run(&["-q", "--", program]) else { return };
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
    }
}

#[test]
fn signals_reach_the_program() {
    let Some(mut command) = percale() else { return };
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    command.args(["run", "-q", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("run the command");
    let mut ready = [0; 6];
    let output = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(output, &mut ready).expect("a word");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.expect("send a signal").success());
    assert_eq!(child.wait().expect("its end").code(), Some(5));
}

#[test]
fn mpis_get_their_settings() {
    let line = |says: &str, provider: &str| {
        let launcher = launcher(says);
        let output = run(&["--dry-run", "--provider", provider, "--", &launcher, "-n", "2", "x"])?;
        assert!(output.status.success(), "{}", text(&output.stderr));
        Some(text(&output.stdout))
    };
    let Some(mpich) = line("HYDRA build details:", "tcp;ofi_rxm") else { return };
    let folder = library().parent().expect("a folder").display().to_string();
    assert!(mpich.starts_with(&format!("LD_LIBRARY_PATH={folder}")), "{mpich}");
    assert!(mpich.contains("FI_PROVIDER='tcp;ofi_rxm' MPIR_CVAR_CH4_NETMOD=ofi "), "{mpich}");
    let intel = line("Intel(R) MPI Library", "tcp").unwrap_or_default();
    assert!(intel.contains("I_MPI_FABRICS=ofi I_MPI_OFI_LIBRARY_INTERNAL=0 "), "{intel}");
    assert!(!intel.contains("OMPI_") && !intel.contains("MPIR_"), "{intel}");
    let open = line("mpirun (Open MPI) 5.0.11", "shm").unwrap_or_default();
    assert!(open.contains("OMPI_MCA_btl_ofi_provider_include=shm "), "{open}");
    assert!(open.ends_with("/mpirun -x LD_LIBRARY_PATH -x FI_PROVIDER -n 2 x\n"), "{open}");
}

/// MPICH's wheel has a libfabric of its own, prefers UCX, and keeps what ranks of a host say to each
/// other to itself.
#[test]
fn ranks_of_an_mpi_job_are_on_this_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [launcher, compiler] =
        ["mpiexec", "mpicc"].map(|name| root.join("../build/venv/bin").join(name));
    if !launcher.exists() {
        return eprintln!("{} is missing: no job", launcher.display());
    }
    let program = scratch("run-ring");
    let compiled = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &root.join("mpi/ring.c")])
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "mpicc refused the program");
    let [launcher, program] = [&launcher, &program].map(|path| path.to_str().expect("letters"));
    for provider in ["shm", "tcp", "tcp;ofi_rxm"] {
        let job = [launcher, "-n", "2", program];
        let Some(output) = run(&[&["--provider", provider, "--"], &job[..]].concat()) else {
            return;
        };
        let (said, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{provider}: {said}{told}");
        let maps: Vec<&str> = said.lines().filter(|line| line.starts_with("maps ")).collect();
        let ours = library().display().to_string();
        assert!(maps.len() == 2 && maps.iter().all(|line| line.ends_with(&ours)), "{maps:?}");
        let both = "percale: 2 processes on this library: run-ring (";
        assert!(told.contains(both) && !told.contains("warning"), "{provider}: {told}");
    }
}

#[test]
fn settings_that_are_there_stay() {
    let Some(mut command) = percale() else { return };
    command.args(["run", "--mpi", "mpich", "--json", "--dry-run", "--", "x"]);
    let output = command.env("MPIR_CVAR_NOLOCAL", "0").output().expect("run the command");
    let told = text(&output.stdout);
    let kept = told.split("MPIR_CVAR_NOLOCAL").nth(1).expect("the setting");
    assert!(kept.contains(r#""value": "0""#) && kept.contains(r#""kept": true"#), "{told}");
}

#[test]
fn no_library_and_no_provider_are_told() {
    let Some(output) = run(&["--provider", "shn", "--", "true"]) else { return };
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("there is no shn"), "{}", text(&output.stderr));
    let Some(mut command) = percale() else { return };
    command.args(["run", "--", "true"]).env("PERCALE_LIBDIR", "/");
    let output = command.output().expect("run the command");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("there is no libfabric.so.1"));
}
