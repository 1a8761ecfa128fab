//! One system that runs a case: how it is started.

use super::Args;
use super::form::Form;
use crate::model::Kind;
use crate::network::Link;
use phalanx::{Code, Result};
use phalanx_base::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model in a form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) model: Kind,
    pub(crate) form: Form,
    /// The links between its tasks, or all on loopback.
    pub(crate) network: Option<Link>,
}

impl Case {
    /// Returns its form and links, as messages and the table have them.
    pub(crate) fn place(&self) -> String {
        match self.network {
            None => self.form.to_string(),
            Some(Link::Unlimited) => format!("{}, links without a limit", self.form),
            Some(Link::Gigabits(limit)) => format!("{}, links of {limit} Gbit/s", self.form),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// TensorFlow
    Tf,
    /// PyTorch
    Torch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    /// As it is.
    Plain,
    /// The coordinator decides what is computed next.
    Coordinated,
    /// Factors of hidden layers are rounded.
    Bf16,
    /// Exchanges go on while steps are computed.
    Overlap,
    /// Connections are encrypted.
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrant {
    /// Ours.
    Ours(Ours),
    /// A peer that does this number of steps in a call.
    Peer { peer: Peer, pack: u64 },
}

impl Entrant {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Ours(Ours::Plain) => "phalanx".to_owned(),
            Self::Ours(Ours::Coordinated) => "phalanx, coordinated".to_owned(),
            Self::Ours(Ours::Bf16) => "phalanx, bf16".to_owned(),
            Self::Ours(Ours::Overlap) => "phalanx, overlap".to_owned(),
            Self::Ours(Ours::Tls) => "phalanx, TLS".to_owned(),
            Self::Peer { peer: Peer::Tf, pack: 1 } => "tensorflow".to_owned(),
            Self::Peer { peer: Peer::Tf, pack } => format!("tensorflow, {pack} steps a call"),
            Self::Peer { peer: Peer::Torch, .. } => "torch".to_owned(),
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether the system can do this at all.
    pub(crate) fn can(self, case: Case, args: &Args) -> bool {
        let mirrored = matches!(case.form, Form::Mirrored { .. });
        match self {
            _ if mirrored && case.model != Kind::Dnn => false,
            _ if case.network.is_some() && case.form == Form::One => false,
            Self::Ours(Ours::Coordinated | Ours::Overlap) => matches!(case.form, Form::Servers { .. }),
            Self::Ours(Ours::Bf16) => !mirrored,
            Self::Ours(Ours::Tls) => case.network.is_some(),
            Self::Ours(Ours::Plain) => true,
            Self::Peer { peer: Peer::Torch, pack } => {
                pack == 1 && (mirrored || case.form == Form::One && !args.from_file)
            }
            Self::Peer { peer: Peer::Tf, pack } if mirrored => pack == 1,
            Self::Peer { peer: Peer::Tf, .. } => true,
        }
    }

    /// Steps in each of its three measurements, so that each takes a second or two on a machine of two cores.
    pub(crate) fn steps(self, case: Case) -> u64 {
        let Case { model, form, .. } = case;
        let full = match (self, model) {
            (Self::Ours(_), Kind::Softmax) => 12_000,
            (Self::Ours(_), Kind::Dnn) => 240,
            (Self::Ours(_), Kind::Embed) => 600,
            (_, Kind::Softmax) if form == Form::One => 4000,
            (Self::Peer { pack: 1, .. }, Kind::Softmax) => 800,
            (Self::Peer { .. }, Kind::Softmax) => 2400,
            (_, Kind::Dnn) => 140,
            (_, Kind::Embed) => 300,
            (_, Kind::Click) => 90,
            (_, Kind::WideDeep) => 12,
        };
        // One core computes half of it.
        if form == (Form::Servers { ps: 1, workers: 1 }) { full / 2 } else { full }
    }

    /// What starts it. `scripts` has our own peers, `input` is the file to read from, if any.
    pub(crate) fn command(self, case: Case, args: &Args, scripts: &Path, input: Option<&Path>) -> Result<Command> {
        let steps = ["--steps".to_owned(), self.steps(case).to_string()];
        let model = case.model.to_string();
        let file = input.into_iter().flat_map(|path| ["--from-file".into(), path.as_os_str().to_owned()]);
        let threads = ["--threads".to_owned(), args.threads.to_string()];
        let mut command = match self {
            Self::Ours(_) => Command::new(std::env::current_exe().context(Code::Internal, "no executable")?),
            Self::Peer { peer: Peer::Tf, .. } => Command::new(given(args.python.as_ref(), "--python")?),
            Self::Peer { peer: Peer::Torch, .. } => Command::new(given(args.torch_python.as_ref(), "--torch-python")?),
        };
        let links = case.network.into_iter().flat_map(|link| ["--network".to_owned(), link.to_string()]);
        match (self, case.form) {
            (Self::Ours(how), Form::Mirrored { workers }) => {
                command.args(["mirrored", "--json", "--workers", &workers.to_string()]).args(steps).args(links);
                command.args((how == Ours::Tls).then_some("--tls"));
            }
            (Self::Ours(how), form) => {
                command.args(["ps", "--json", "--model", &model]).args(steps).args(tasks(form)).args(file).args(links);
                match how {
                    Ours::Plain => {}
                    Ours::Coordinated => {
                        command.args(["--driver", "coordinator"]);
                    }
                    Ours::Bf16 => {
                        command.arg("--bf16");
                    }
                    Ours::Overlap => {
                        command.arg("--overlap");
                    }
                    Ours::Tls => {
                        command.arg("--tls");
                    }
                }
                if form == Form::One {
                    command.args(threads);
                }
            }
            (Self::Peer { peer, .. }, Form::Mirrored { workers }) => {
                let (framework, anchor) = match peer {
                    Peer::Tf => ("tf", "tf_mwms.py"),
                    Peer::Torch => ("torch", "torch_ddp.py"),
                };
                // The scripts that are given know no other machines.
                match args.peers.as_ref().filter(|_| case.network.is_none()) {
                    Some(folder) => command.arg(folder.join(anchor)),
                    None => command.arg(scripts.join("peer_mirrored.py")).arg(framework),
                };
                command.args(steps).args(["--workers", &workers.to_string()]);
            }
            (Self::Peer { peer: Peer::Torch, .. }, _) => {
                command.arg(scripts.join("peer_torch.py")).arg(model).args(steps).args(threads);
            }
            (Self::Peer { pack, .. }, form) => {
                // The scripts that are given are the anchor where they have the model.
                let theirs = args.peers.as_ref().filter(|_| {
                    let anchored = matches!(case.model, Kind::Softmax | Kind::Dnn | Kind::Embed);
                    anchored && form != Form::One && input.is_none() && case.network.is_none()
                });
                let script = theirs.map_or_else(|| scripts.join("peer_tf.py"), |folder| folder.join("tf_ps.py"));
                command.arg(script).arg(model).args(steps).args(tasks(form)).args(["--pack", &pack.to_string()]);
                command.args(file);
                if form == Form::One {
                    command.args(threads);
                }
            }
        }
        Ok(command)
    }
}

/// The tasks of a form, in the words of all programs.
fn tasks(form: Form) -> Vec<String> {
    let (ps, workers) = match form {
        Form::One => (0, 1),
        Form::Servers { ps, workers } => (ps, workers),
        Form::Mirrored { workers } => (0, workers),
    };
    ["--ps".to_owned(), ps.to_string(), "--workers".to_owned(), workers.to_string()].into()
}

fn given<'a>(path: Option<&'a PathBuf>, flag: &str) -> Result<&'a PathBuf> {
    path.ok_or_else(|| phalanx::Error::new(Code::BadSetting, format!("{flag} is missing")))
}
