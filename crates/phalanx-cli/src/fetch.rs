//! `phalanx data fetch`: downloads public data sets and verifies them.
//!
//! `curl` transfers the files: it brings TLS and proxies along, which would be a third of this program otherwise. Whatever a mirror
//! sends, a file appears under its name only if its SHA-256 is the published one.

mod datasets;
#[cfg(test)]
mod tests;

use crate::exit::ExitCode;
use crate::output::eprint;
use datasets::{DATASETS, PublicFile};
use phalanx_base::{Code, Context, Error, Result};
use sha2::{Digest, Sha256};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Downloads a public data set and verifies its checksums
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx data fetch mnist --dir data/mnist")]
pub(crate) struct FetchArgs {
    /// Data set
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(DATASETS.map(|dataset| dataset.name)))]
    name: String,
    /// Directory for its files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Folder of another mirror that has the same files: http://, https:// or file://
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

pub(crate) fn run(args: &FetchArgs) -> ExitCode {
    let run = || {
        let Some(dataset) = DATASETS.iter().find(|dataset| dataset.name == args.name) else {
            return Err(Error::new(Code::Flags, format!("there is no data set {:?}", args.name)));
        };
        let mirrors: Vec<&str> = match &args.from {
            Some(from) => vec![from],
            None => dataset.mirrors.to_vec(),
        };
        for file in dataset.files {
            let done = fetch(file, &args.dir, &mirrors)?;
            eprint(&format!("{:>12} {}\n", done.as_str(), args.dir.join(file.name).display()));
        }
        eprint(&format!("{:>12} {}\n", "Next", dataset.next.replace("DIR", &args.dir.display().to_string())));
        Ok(())
    };
    crate::output::finish(run())
}

/// How a file came to be in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetched {
    Downloaded,
    Verified,
}

impl Fetched {
    fn as_str(self) -> &'static str {
        match self {
            Self::Downloaded => "Downloaded",
            Self::Verified => "Verified",
        }
    }
}

/// Puts a file into the directory, from the first mirror that has it. A file that is there already is verified only.
fn fetch(file: &PublicFile, dir: &Path, mirrors: &[&str]) -> Result<Fetched> {
    let path = dir.join(file.name);
    match sha256(&path) {
        Ok(found) if found == file.sha256 => return Ok(Fetched::Verified),
        Ok(found) => {
            return Err(Error::new(Code::DataFormat, format!("{} has another content", path.display()))
                .because(format!("its SHA-256 is {found}, the published one is {}", file.sha256))
                .help("delete it, or choose another --dir"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).context(Code::StorageRead, format!("{} cannot be read", path.display())),
    }
    let what = || format!("{} cannot be written", path.display());
    std::fs::create_dir_all(dir).context(Code::StorageWrite, what())?;
    let part = tempfile::Builder::new().prefix(".phalanx-").suffix(".part").tempfile_in(dir);
    let part = part.context(Code::StorageWrite, what())?;
    let mut reasons = Vec::new();
    for mirror in mirrors {
        let url = format!("{}/{}", mirror.trim_end_matches('/'), file.name);
        let transferred = transfer(&url, file, part.path())?;
        match verified(&url, file, part.path(), &transferred) {
            Ok(()) => {
                // Readable by all, as a file that was created under its name would be, whatever the mask of a temporary file.
                readable(part.as_file()).context(Code::StorageWrite, what())?;
                part.persist(&path).map_err(|error| error.error).context(Code::StorageWrite, what())?;
                return Ok(Fetched::Downloaded);
            }
            Err(error) => reasons.push(error),
        }
    }
    Err(summary(file, dir, &reasons))
}

/// The only error, or one that lists the errors of all mirrors.
fn summary(file: &PublicFile, dir: &Path, reasons: &[Error]) -> Error {
    if let [only] = reasons {
        return only.clone();
    }
    let list: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    Error::new(Code::DataMissing, format!("no mirror has {}", file.name))
        .because(list.join("; "))
        .help(format!("give another mirror with --from, or put the file into {} yourself", dir.display()))
}

fn failed(url: &str, why: String) -> Error {
    Error::new(Code::DataMissing, format!("{url} cannot be downloaded")).because(why)
}

/// Runs `curl`. A mirror that stalls is given up; one that sends too much is cut off.
///
/// # Errors
/// If `curl` cannot be started, which no other mirror helps against.
fn transfer(url: &str, file: &PublicFile, to: &Path) -> Result<Output> {
    let done = Command::new("curl")
        .args(["--fail", "--location", "--silent", "--show-error", "--connect-timeout", "20", "--max-time", "3600"])
        .args(["--speed-limit", "1000", "--speed-time", "30", "--proto", "=http,https,file", "--globoff"])
        .args(["--max-filesize", &file.bytes.to_string(), "--output"])
        .arg(to)
        .args(["--", url])
        .stdin(Stdio::null())
        .output();
    done.map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed(url, "the program curl is missing".to_owned())
            .help(format!("install curl, or put {} into the directory yourself", file.name)),
        _ => failed(url, format!("curl cannot be started: {error}")).help("check the installation of curl"),
    })
}

/// Checks that `curl` succeeded and that the file is the published one.
fn verified(url: &str, file: &PublicFile, path: &Path, transferred: &Output) -> Result<()> {
    if !transferred.status.success() {
        let text = String::from_utf8_lossy(&transferred.stderr);
        let why = text.trim().lines().last().unwrap_or("curl failed").to_owned();
        return Err(failed(url, why).help("check the network, or give another mirror with --from"));
    }
    let found = sha256(path).context(Code::StorageRead, format!("{} cannot be read", path.display()))?;
    if found != file.sha256 {
        let size = std::fs::metadata(path).map_or(0, |data| data.len());
        return Err(Error::new(Code::DataFormat, format!("{url} is not the published file"))
            .because(format!(
                "it has {size} bytes with SHA-256 {found}; published are {} bytes with {}",
                file.bytes, file.sha256
            ))
            .help(
                "the mirror has another version, or the transfer was changed on its way: use another mirror (--from)",
            ));
    }
    Ok(())
}

fn readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// The SHA-256 of a file as hexadecimal digits.
fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hash.update(&buffer[..read]),
        }
    }
}
