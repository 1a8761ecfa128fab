//! The identity of a task, and whether two tasks belong to one job.

use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use phalanx_wire::PROTOCOL;
use phalanx_wire::proto::control::Identity;

/// The identity that a task sends with its first heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct TaskIdentity {
    pub(crate) job: String,
    pub(crate) task: TaskId,
    pub(crate) incarnation: Incarnation,
    pub(crate) build: String,
    pub(crate) address: String,
}

impl TaskIdentity {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            job: self.job.clone(),
            task: self.task.to_string(),
            incarnation: self.incarnation.0,
            build: self.build.clone(),
            protocol: PROTOCOL,
            address: self.address.clone(),
        }
    }
}

/// Fails if `peer` cannot be in one job with `own`.
pub(crate) fn check_peer(own: &TaskIdentity, peer: &Identity) -> Result<()> {
    let place = format!("{} at {}", peer.task, peer.address);
    if peer.protocol != PROTOCOL {
        return Err(Error::new(Code::WrongProtocol, format!("{} speaks another version of the protocol", peer.task))
            .at(place)
            .because(format!("it speaks version {}, {} speaks {PROTOCOL}", peer.protocol, own.task))
            .help("run the same version of Phalanx in every task"));
    }
    if peer.job != own.job {
        return Err(Error::new(Code::WrongJob, format!("{} belongs to another job", peer.task))
            .at(place)
            .because(format!(
                "its job is {}, this one is {} (chief's address and checksum of the ps list)",
                peer.job, own.job
            ))
            .help("see whether two jobs use one address, or two tasks were given different clusters"));
    }
    if peer.build != own.build {
        return Err(Error::new(Code::WrongBuild, format!("{} runs another build of the program", peer.task))
            .at(place)
            .because(format!("its executable is {}, that of {} is {}", peer.build, own.task, own.build))
            .help("start every task from the same binary"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Role;

    #[test]
    fn each_difference_has_a_code_of_its_own() {
        let own = TaskIdentity {
            job: "a:1/0".into(),
            task: TaskId::new(Role::Chief, 0),
            incarnation: Incarnation(1),
            build: "b".into(),
            address: "a:1".into(),
        };
        let code = |change: fn(&mut Identity)| {
            let mut peer = own.identity();
            change(&mut peer);
            check_peer(&own, &peer).map_err(|error| error.code())
        };
        assert_eq!(code(|_| {}), Ok(()));
        assert_eq!(code(|peer| peer.job = "x".into()), Err(Code::WrongJob));
        assert_eq!(code(|peer| peer.build = "x".into()), Err(Code::WrongBuild));
        assert_eq!(code(|peer| peer.protocol = 99), Err(Code::WrongProtocol));
    }
}
