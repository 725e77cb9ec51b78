//! RDMA: devices, ports and addresses as the kernel shows them, and the libraries that speak to them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Finding, State};

const CLASS: &str = "/sys/class/infiniband";
const NODES: &str = "/dev/infiniband";
/// What the verbs provider opens at run time.
const LIBRARIES: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];
const INSTALL: &str = "install rdma-core (Debian: libibverbs1 librdmacm1 ibverbs-providers)";
/// Where systems keep libraries, beside what `LD_LIBRARY_PATH` names.
const DIRECTORIES: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

/// Whether there is any device.
pub(super) fn is_there() -> bool {
    !entries(Path::new(CLASS)).is_empty()
}

pub(super) fn check() -> Vec<Finding> {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&named).collect();
    directories.extend(DIRECTORIES.map(PathBuf::from));
    if !is_there() {
        return vec![none(&missing(&directories))];
    }
    vec![devices(Path::new(CLASS)), nodes(Path::new(NODES)), libraries(&directories)]
}

fn none(missing: &[&str]) -> Finding {
    const CHECK: &str = "RDMA devices";
    match missing {
        [] => Finding::new(CHECK, State::Note, "none"),
        missing => {
            let found =
                format!("none; nor is there {}, without which none is used", missing.join(", "));
            Finding::new(CHECK, State::Note, found).fix(INSTALL)
        }
    }
}

/// The names in a directory, in order.
fn entries(directory: &Path) -> Vec<String> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        all.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Numbers come in their own order.
    names.sort_by_key(|name| (name.parse::<u32>().ok(), name.clone()));
    names
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The word behind the number of a state, as in `4: ACTIVE`.
fn word(text: &str) -> &str {
    text.split_once(": ").map_or(text, |(_, word)| word)
}

fn devices(class: &Path) -> Finding {
    const CHECK: &str = "RDMA devices";
    let (mut active, mut details) = (0, Vec::new());
    let names = entries(class);
    for name in &names {
        let ports = class.join(name).join("ports");
        for number in entries(&ports) {
            let port = ports.join(&number);
            let state = text(port.join("state"));
            active += usize::from(word(&state) == "ACTIVE");
            let link = text(port.join("link_layer"));
            let (rate, physical) = (text(port.join("rate")), text(port.join("phys_state")));
            let physical = match word(&state) {
                "ACTIVE" => String::new(),
                _ => format!(" ({})", word(&physical)),
            };
            details
                .push(format!("{name} port {number}: {}{physical}, {link}, {rate}", word(&state)));
            details.extend(addresses(&port).into_iter().map(|line| format!("    {line}")));
        }
    }
    let count = names.len();
    let finding = if active == 0 {
        Finding::new(CHECK, State::Warning, format!("{count}, without an active port"))
            .fix("plug the cable in; start a subnet manager (InfiniBand); ip link set up (RoCE)")
    } else {
        Finding::new(CHECK, State::Ok, format!("{count}, {active} active ports"))
    };
    finding.details(details)
}

/// The addresses of a port, with kind and interface.
fn addresses(port: &Path) -> Vec<String> {
    const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
    const MOST: usize = 8;
    let attributes = port.join("gid_attrs");
    let mut lines = Vec::new();
    for index in entries(&port.join("gids")) {
        let gid = text(port.join("gids").join(&index));
        // Of InfiniBand, the half behind the prefix tells whether it is one.
        if gid.is_empty() || gid == NONE || gid.ends_with(":0000:0000:0000:0000") {
            continue;
        }
        if lines.len() == MOST {
            lines.push("...".to_owned());
            break;
        }
        let kind = text(attributes.join("types").join(&index));
        let interface = text(attributes.join("ndevs").join(&index));
        let rest: Vec<String> =
            [kind, interface].into_iter().filter(|text| !text.is_empty()).collect();
        lines.push(format!("GID {index} {gid} {}", rest.join(" ")).trim_end().to_owned());
    }
    if lines.is_empty() {
        lines.push("no GID: give its interface an address".to_owned());
    }
    lines
}

/// The files that programs reach devices through.
fn nodes(directory: &Path) -> Finding {
    const CHECK: &str = "RDMA access";
    let verbs: Vec<String> =
        entries(directory).into_iter().filter(|name| name.starts_with("uverbs")).collect();
    if verbs.is_empty() {
        let found = format!("{} has no device", directory.display());
        return Finding::new(CHECK, State::Problem, found)
            .fix("modprobe ib_uverbs rdma_ucm; in a container: --device=/dev/infiniband");
    }
    let shut = |name: &&String| {
        let opened = fs::OpenOptions::new().read(true).write(true).open(directory.join(name));
        opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let mut needed = verbs.clone();
    needed.push("rdma_cm".to_owned());
    let denied: Vec<&str> = needed.iter().filter(shut).map(String::as_str).collect();
    if !denied.is_empty() {
        let found = format!("this user may not open {}", denied.join(", "));
        return Finding::new(CHECK, State::Problem, found)
            .fix("udev rules of rdma-core make them mode 0666; in a container: --device");
    }
    if !directory.join("rdma_cm").exists() {
        let found = format!("{} has no rdma_cm: no connections", directory.display());
        return Finding::new(CHECK, State::Problem, found).fix("modprobe rdma_ucm");
    }
    Finding::new(CHECK, State::Ok, format!("{} devices may be opened", verbs.len()))
}

fn libraries(directories: &[PathBuf]) -> Finding {
    const CHECK: &str = "RDMA libraries";
    let missing = missing(directories);
    if missing.is_empty() {
        return Finding::new(CHECK, State::Ok, LIBRARIES.join(", "));
    }
    let found = format!("not found: {}", missing.join(", "));
    Finding::new(CHECK, State::Problem, found).fix(INSTALL)
}

/// Libraries that are in none of the directories.
fn missing(directories: &[PathBuf]) -> Vec<&'static str> {
    LIBRARIES
        .into_iter()
        .filter(|library| !directories.iter().any(|place| place.join(library).is_file()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_the_kernel_shows() {
        let root = std::env::temp_dir().join(format!("percale-doctor-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let class = root.join("class");
        let port = class.join("mlx5_0/ports/1");
        write(&port.join("state"), "4: ACTIVE\n");
        write(&port.join("phys_state"), "5: LinkUp\n");
        write(&port.join("link_layer"), "Ethernet\n");
        write(&port.join("rate"), "100 Gb/sec (4X EDR)\n");
        let gid = "fe80:0000:0000:0000:0202:c9ff:fe00:0001";
        write(&port.join("gids/0"), gid);
        write(&port.join("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000");
        write(&port.join("gid_attrs/types/0"), "RoCE v2\n");
        write(&port.join("gid_attrs/ndevs/0"), "eth2\n");
        let finding = devices(&class);
        assert_eq!((finding.state, finding.found.as_str()), (State::Ok, "1, 1 active ports"));
        assert_eq!(finding.details[0], "mlx5_0 port 1: ACTIVE, Ethernet, 100 Gb/sec (4X EDR)");
        assert_eq!(finding.details[1], format!("    GID 0 {gid} RoCE v2 eth2"));
        assert_eq!(finding.details.len(), 2);

        write(&port.join("state"), "1: DOWN\n");
        write(&port.join("phys_state"), "3: Disabled\n");
        let finding = devices(&class);
        assert_eq!(finding.state, State::Warning);
        assert!(finding.details[0].contains("DOWN (Disabled)"));

        assert_eq!(nodes(&root.join("dev")).state, State::Problem);
        write(&root.join("dev/uverbs0"), "");
        assert!(nodes(&root.join("dev")).found.contains("no rdma_cm"));
        write(&root.join("dev/rdma_cm"), "");
        assert_eq!(nodes(&root.join("dev")).state, State::Ok);

        let places = [root.join("lib")];
        assert!(libraries(&places).found.contains("libibverbs.so.1, librdmacm.so.1"));
        LIBRARIES.iter().for_each(|library| write(&places[0].join(library), ""));
        assert_eq!(libraries(&places).state, State::Ok);
        assert!(none(&["libibverbs.so.1"]).found.contains("nor is there libibverbs.so.1"));
        assert!(none(&[]).fix.is_none());
        fs::remove_dir_all(&root).unwrap();
    }
}
