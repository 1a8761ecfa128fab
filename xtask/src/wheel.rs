//! `cargo xtask wheel`: builds the Python package as a wheel that runs on other machines, and tries it where nothing else is
//! installed. Zig is the C compiler and linker: its glibc is as old as the platform tag promises, whatever this machine has.

use crate::{output, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc that the wheel runs with, as its platform tag.
const PLATFORM: &str = "manylinux_2_28";
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.0"];

/// What a program would import first.
const IMPORTS: &str = "\
import importlib.metadata, sys
import phalanx, phalanx.compat, phalanx.data, phalanx.estimator, phalanx.feature_column, phalanx.jobs, phalanx.keras
assert phalanx.__version__ == importlib.metadata.version('phalanx'), phalanx.__version__
assert 'torch' not in sys.modules
print('imports', phalanx.__file__)";

/// Builds the wheel, installs it into a new environment and runs it there.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let home = target.join("wheel");
    std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    // Paths for commands that run in other folders.
    let home = home.canonicalize().map_err(|error| format!("{}: {error}", home.display()))?;
    let wheel = built(root, &target, &home)?;
    let size = wheel.metadata().map_err(|error| error.to_string())?.len() as f64 / 1e6;
    attempt(&wheel, &home)?;
    eprintln!("wheel: {} ({size:.1} MB)", wheel.display());
    Ok(())
}

/// Returns the wheel, the only file of its folder.
fn built(root: &Path, target: &Path, home: &Path) -> Result<PathBuf, String> {
    let tools = Environment::at(home.join("tools"), false)?;
    tools.install(TOOLS)?;
    let folder = home.join("wheels");
    let _none_yet = std::fs::remove_dir_all(&folder);
    let mut maturin = tools.command("maturin");
    maturin.current_dir(root.join("python")).env("CARGO_TARGET_DIR", target);
    maturin
        .args(["build", "--profile", "dist", "--locked", "--zig", "--compatibility", PLATFORM, "--out"])
        .arg(&folder);
    run(&mut maturin)?;
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wheels: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    match wheels.as_slice() {
        [wheel] if wheel.to_string_lossy().contains(PLATFORM) => Ok(wheel.clone()),
        others => Err(format!("maturin made {others:?} instead of one wheel for {PLATFORM}")),
    }
}

/// Installs the wheel into a new environment, and runs the command, the demo and the imports outside of the source tree.
fn attempt(wheel: &Path, home: &Path) -> Result<(), String> {
    let clean = Environment::at(home.join("clean"), true)?;
    clean.install([wheel])?;
    let folder = home.join("run");
    let _none_yet = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let version = output(clean.command("phalanx").current_dir(&folder).arg("--version"))?;
    eprint!("{version}");
    run(clean.command("python").current_dir(&folder).args(["-c", IMPORTS]))?;
    let demo = ["-m", "phalanx", "demo", "--max-steps", "400", "--no-dashboard", "--model-dir", "demo"];
    run(clean.command("python").current_dir(&folder).args(demo))
}

/// A virtual environment of Python.
struct Environment(PathBuf);

impl Environment {
    /// Makes the environment; `clear` empties one that exists.
    fn at(folder: PathBuf, clear: bool) -> Result<Self, String> {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).args(clear.then_some("--clear")).arg(&folder);
        run(&mut venv)?;
        Ok(Self(folder))
    }

    fn install(&self, packages: impl IntoIterator<Item: AsRef<std::ffi::OsStr>>) -> Result<(), String> {
        run(self
            .command("python")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages))
    }

    /// A command of the environment, which finds the others of it first.
    fn command(&self, name: &str) -> Command {
        let bin = self.0.join("bin");
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([bin.clone()].into_iter().chain(std::env::split_paths(&others)));
        let mut command = Command::new(bin.join(name));
        command.env("PATH", path.unwrap_or(others)).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    }
}
