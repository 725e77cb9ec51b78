//! The library that belongs to this command.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What programs ask for.
const NAME: &str = "libfabric.so.1";
/// Names the folder of the library.
const VARIABLE: &str = "PERCALE_LIBDIR";
/// A symbol that this library has, and no other one. It is linked with others, so that it stays when
/// an installation strips the rest.
const MARK: &[u8] = b"percale_getinfo_1_0";

/// A `libfabric.so.1` of ours.
#[derive(Clone, Debug)]
pub(super) struct Library {
    /// The folder in which programs find it.
    pub(super) folder: PathBuf,
    /// The file itself, without links.
    pub(super) file: PathBuf,
    /// By which it is known under every name.
    identity: (u64, u64),
}

impl Library {
    /// Finds it, or says where it was looked for, and what to do.
    pub(super) fn find() -> Result<Self, String> {
        if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            return Self::in_folder(Path::new(&folder))
                .map_err(|reason| format!("{VARIABLE}={}: {reason}", folder.display()));
        }
        let own = std::env::current_exe().and_then(|path| path.canonicalize());
        let own = own.map_err(|error| format!("this command does not find itself: {error}"))?;
        let mut tried = Vec::new();
        for folder in around(&own) {
            match Self::in_folder(&folder) {
                Ok(library) => return Ok(library),
                Err(reason) => tried.push(format!("\n  {}: {reason}", folder.display())),
            }
        }
        Err(format!(
            "no {NAME} of Percale beside this command:{}\nInstall both with `make install \
             PREFIX=FOLDER` in Percale's sources, or name the library's folder in {VARIABLE}.",
            tried.concat()
        ))
    }

    fn in_folder(folder: &Path) -> Result<Self, String> {
        let path = folder.join(NAME);
        let file = path.canonicalize().map_err(|_| format!("there is no {NAME}"))?;
        let about = file.metadata().map_err(|_| format!("{NAME} cannot be read"))?;
        if !is_ours(&file) {
            return Err(format!("the {NAME} there is another library"));
        }
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(Self { folder, file, identity: (about.dev(), about.ino()) })
    }

    /// Whether a file is this library.
    pub(super) fn is(&self, path: &Path) -> bool {
        path == self.file
            || path.metadata().is_ok_and(|about| (about.dev(), about.ino()) == self.identity)
    }
}

/// Whether a file knows what only this library does.
pub(super) fn is_ours(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.windows(MARK.len()).any(|part| part == MARK))
}

/// The folders where the library of a command may be, nearest first.
fn around(command: &Path) -> Vec<PathBuf> {
    let Some(folder) = command.parent() else { return Vec::new() };
    let mut folders = vec![folder.to_owned()];
    if let Some(prefix) = folder.parent() {
        folders.extend(["lib", "lib64"].map(|name| prefix.join(name)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_build_and_of_an_installation() {
        let folders = around(Path::new("/opt/percale/bin/percale"));
        assert_eq!(folders[0], Path::new("/opt/percale/bin"));
        assert_eq!(folders[1], Path::new("/opt/percale/lib"));
    }

    #[test]
    fn other_libraries_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("percale-run-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let missing = Library::in_folder(&folder).unwrap_err();
        fs::write(folder.join(NAME), b"something else").unwrap();
        let other = Library::in_folder(&folder).unwrap_err();
        fs::write(folder.join(NAME), b"with percale_getinfo_1_0 in it").unwrap();
        let ours = Library::in_folder(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert!(missing.contains("there is no"), "{missing}");
        assert!(other.contains("another library"), "{other}");
        assert!(ours.is_ok());
    }
}
