//! Ours and the peers' jobs by turns, and what came out beside what the machine allows.

mod entrant;
mod form;
mod report;

use crate::limits::Limits;
use crate::model::{InputFile, Kind, Sizes};
use crate::network::{Link, Network};
use crate::{peer_scripts, watch};
use entrant::{Case, Entrant, Ours, Peer};
use form::Form;
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use report::{Report, Row};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is compared, and with whom.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Beside whom
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tf")]
    peer: Vec<Peer>,
    /// A Python interpreter with TensorFlow; without it TensorFlow is not measured
    #[arg(long)]
    python: Option<PathBuf>,
    /// A Python interpreter with PyTorch
    #[arg(long)]
    torch_python: Option<PathBuf>,
    /// A folder with tf_ps.py, tf_mwms.py and torch_ddp.py: they stand for the peers where they have the model
    #[arg(long)]
    peers: Option<PathBuf>,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    models: Vec<Kind>,
    /// one, PS+WORKERS such as 2+2, mirrored
    #[arg(long, value_delimiter = ',', default_value = "2+2")]
    forms: Vec<Form>,
    /// How often each is measured, by turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Steps in a call of TensorFlow's; 10 is its own advice
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    pack: Vec<u64>,
    /// Measures ours with a coordinator as well
    #[arg(long)]
    coordinated: bool,
    /// Measures ours with factors rounded to bfloat16 as well
    #[arg(long)]
    bf16: bool,
    /// Measures ours with exchanges that go on while steps are computed as well
    #[arg(long)]
    overlap: bool,
    /// Both sides read their examples from one TFRecord file instead of having them in memory
    #[arg(long)]
    from_file: bool,
    /// Each task in a network namespace of its own, over links of these speeds: unlimited, or Gbit/s
    #[arg(long, value_delimiter = ',')]
    network: Vec<Link>,
    /// With --network: measures ours with encryption as well
    #[arg(long)]
    tls: bool,
    /// Compute threads in one process
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds after which one measurement is given up
    #[arg(long, default_value_t = 180)]
    deadline: u64,
    /// Lines of JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn check(&self) -> Result<()> {
        let bad = |what| Err(Error::new(Code::BadSetting, what));
        if self.rounds == 0 || self.pack.contains(&0) || self.threads == 0 {
            return bad("--rounds, --pack and --threads must be greater than 0");
        }
        if self.peer.contains(&Peer::Torch) && self.torch_python.is_none() {
            return bad("--peer torch needs an interpreter that has it: --torch-python");
        }
        Ok(())
    }

    fn entrants(&self) -> Vec<Entrant> {
        let mut entrants = vec![Entrant::Ours(Ours::Plain)];
        entrants.extend(self.coordinated.then_some(Entrant::Ours(Ours::Coordinated)));
        entrants.extend(self.bf16.then_some(Entrant::Ours(Ours::Bf16)));
        entrants.extend(self.overlap.then_some(Entrant::Ours(Ours::Overlap)));
        entrants.extend(self.tls.then_some(Entrant::Ours(Ours::Tls)));
        if self.peer.contains(&Peer::Tf) && self.python.is_some() {
            entrants.extend(self.pack.iter().map(|&pack| Entrant::Peer { peer: Peer::Tf, pack }));
        }
        entrants.extend(self.peer.contains(&Peer::Torch).then_some(Entrant::Peer { peer: Peer::Torch, pack: 1 }));
        entrants
    }

    fn cases(&self) -> Vec<Case> {
        let links: Vec<Option<Link>> =
            if self.network.is_empty() { vec![None] } else { self.network.iter().copied().map(Some).collect() };
        let mut cases = Vec::new();
        for &network in &links {
            for &model in &self.models {
                cases.extend(self.forms.iter().map(|&form| Case { model, form, network }));
            }
        }
        cases.retain(|&case| Entrant::Ours(Ours::Plain).can(case, self));
        cases
    }
}

/// Measures everything and prints it.
pub(crate) fn measure(args: &Args) -> Result<()> {
    args.check()?;
    let entrants = args.entrants();
    if !entrants.iter().any(|entrant| !entrant.is_ours()) {
        eprintln!("no peer: without --python (or --peer torch --torch-python) ours alone is measured");
    }
    let folder = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?;
    peer_scripts::write(folder.path())?;
    let limits = Limits::measure(&args.models)?;
    if !args.json {
        println!("{}\n", limits.table());
    }
    let mut report = Report::new(limits, args.rounds);
    for case in args.cases() {
        let input = args.from_file.then(|| input_of(case.model, folder.path())).transpose()?;
        report.add(measure_case(args, case, &entrants, folder.path(), input.as_deref())?);
    }
    println!("{}", if args.json { report.to_json() } else { report.table() });
    Ok(())
}

fn measure_case(
    args: &Args,
    case: Case,
    entrants: &[Entrant],
    scripts: &Path,
    input: Option<&Path>,
) -> Result<Vec<Row>> {
    let able = entrants.iter().filter(|entrant| entrant.can(case, args));
    let mut rows: Vec<Row> = able.map(|&entrant| Row::new(case, entrant)).collect();
    for round in 1..=args.rounds {
        for row in rows.iter_mut().filter(|row| row.failure.is_none()) {
            // Ours makes its own machines.
            let link = case.network.filter(|_| !row.entrant.is_ours());
            let network = link.map(|link| Network::new(case.form.tasks() + 1, link)).transpose()?;
            let mut command = row.entrant.command(case, args, scripts, input)?;
            if let Some(network) = &network {
                command.args(["--machines", &network.list()]);
                command = network.on(case.form.tasks(), &command);
            }
            let name = format!("{} {}, {}, round {round}", case.model, case.place(), row.entrant.name());
            match watch::run(command, row.entrant.steps(case), Duration::from_secs(args.deadline)) {
                Ok(seen) => {
                    eprintln!("{name}: {} steps/s", seen.rate());
                    row.seen.push(seen);
                }
                // One that fails does not take the other figures with it.
                Err(error) => {
                    eprintln!("{name}: {error}");
                    row.failure = Some(error.to_string());
                }
            }
        }
    }
    Ok(rows)
}

fn input_of(model: Kind, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("{model}.tfrecord"));
    if !path.exists() {
        // Some passes in a measurement, and not so much that writing it takes long.
        let sizes = Sizes::new(model);
        InputFile::write(&path, &sizes, (100_000_000 / (8 * sizes.layers[0])).clamp(20_000, 200_000))?;
    }
    Ok(path)
}
