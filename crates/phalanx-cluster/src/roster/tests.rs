//! The roster, driven by hand.

use super::*;

const LEASE: Duration = Duration::from_secs(5);
const PS: TaskId = TaskId { role: Role::Ps, index: 0 };
const WORKER: TaskId = TaskId { role: Role::Worker, index: 0 };

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Advances an awake chief to `to`, with heartbeats from `beating`.
fn pass(roster: &mut Roster, from: Duration, to: Duration, beating: &[TaskId]) {
    let mut now = from;
    while now < to {
        now = (now + Duration::from_millis(200)).min(to);
        for &task in beating {
            roster.beat(now, task, Incarnation(1), MemberState::Here).unwrap();
        }
        roster.tick(now);
    }
}

fn running() -> Roster {
    let mut roster = Roster::new([PS, WORKER], LEASE);
    for task in [PS, WORKER] {
        roster.beat(seconds(0), task, Incarnation(1), MemberState::Here).unwrap();
    }
    roster
}

#[test]
fn a_job_runs_once_everybody_has_come() {
    let mut roster = Roster::new([PS, WORKER], LEASE);
    assert_eq!(roster.beat(seconds(0), PS, Incarnation(1), MemberState::Here).unwrap(), Phase::Forming);
    assert_eq!(roster.missing(), [WORKER]);
    assert_eq!(roster.beat(seconds(4), WORKER, Incarnation(1), MemberState::Here).unwrap(), Phase::Running);
}

#[test]
fn a_job_that_takes_any_workers_needs_its_servers_and_one_worker() {
    let other = TaskId::new(Role::Worker, 1);
    let mut roster = Roster::new([PS, WORKER, other], LEASE);
    roster.take_any_workers();
    assert_eq!(roster.beat(seconds(0), other, Incarnation(1), MemberState::Here).unwrap(), Phase::Forming);
    assert_eq!(roster.beat(seconds(0), PS, Incarnation(1), MemberState::Here).unwrap(), Phase::Running);
    let unlisted = TaskId::new(Role::Worker, 9);
    assert_eq!(roster.beat(seconds(1), unlisted, Incarnation(1), MemberState::Here).unwrap(), Phase::Running);
    let server = TaskId::new(Role::Ps, 1);
    assert!(roster.beat(seconds(1), server, Incarnation(1), MemberState::Here).is_err());
}

#[test]
fn a_second_live_process_with_one_identity_is_refused_and_a_restarted_one_is_not() {
    let mut roster = running();
    let refused = roster.beat(seconds(1), WORKER, Incarnation(2), MemberState::Here).unwrap_err();
    assert_eq!(refused.code(), Code::DuplicateTask);
    pass(&mut roster, seconds(1), seconds(6), &[PS]);
    assert_eq!(roster.beat(seconds(6), WORKER, Incarnation(2), MemberState::Here).unwrap(), Phase::Running);
    assert_eq!(roster.take_lost(), [(WORKER, Incarnation(1))]);
}

#[test]
fn a_process_that_is_known_to_be_gone_is_lost_at_once() {
    let mut roster = running();
    assert!(roster.suspected(seconds(1), seconds(2)).is_empty());
    assert!(roster.beat(seconds(1), WORKER, Incarnation(2), MemberState::Here).is_err());
    assert_eq!(roster.suspected(seconds(1), seconds(2)), [(WORKER, Incarnation(1))], "another says it is that task");
    roster.died(seconds(1), WORKER, Incarnation(9), "somebody else");
    assert!(roster.take_lost().is_empty());
    roster.died(seconds(1), WORKER, Incarnation(1), "nobody listens there");
    assert_eq!(roster.take_lost(), [(WORKER, Incarnation(1))]);
    assert_eq!(roster.beat(seconds(1), WORKER, Incarnation(2), MemberState::Here).unwrap(), Phase::Running);
    assert!(roster.take_lost().is_empty(), "told once");
}

#[test]
fn a_silent_worker_is_lost_and_the_job_goes_on() {
    let mut roster = running();
    pass(&mut roster, seconds(0), seconds(6), &[PS]);
    assert_eq!((roster.take_lost().len(), roster.phase()), (1, Phase::Running));
    assert!(roster.take_lost().is_empty(), "told once");
}

#[test]
fn a_silent_server_ends_the_job_with_an_error() {
    let mut roster = running();
    pass(&mut roster, seconds(0), seconds(6), &[WORKER]);
    assert_eq!(roster.phase(), Phase::Ending);
    assert_eq!(roster.failure().unwrap().code(), Code::ServerLost);
}

#[test]
fn a_server_that_can_be_restored_is_waited_for_and_then_given_up() {
    let mut roster = running();
    roster.wait_for_servers(seconds(60));
    pass(&mut roster, seconds(0), seconds(6), &[WORKER]);
    assert_eq!((roster.phase(), roster.lost_servers().collect::<Vec<_>>()), (Phase::Running, vec![PS]));
    let mut returned = roster.clone();
    pass(&mut returned, seconds(6), seconds(30), &[WORKER]);
    returned.beat(seconds(30), PS, Incarnation(2), MemberState::Here).unwrap();
    assert_eq!((returned.take_returned(), returned.lost_servers().count()), (vec![PS], 0));
    assert_eq!(returned.take_events(), [RosterEvent::ServerLost(PS), RosterEvent::ServerStartedAgain(PS)]);
    returned.beat(seconds(70), WORKER, Incarnation(1), MemberState::Here).unwrap();
    assert_eq!(returned.phase(), Phase::Running);
    pass(&mut roster, seconds(6), seconds(64), &[WORKER]);
    assert!(roster.failure().is_none(), "it is waited for");
    pass(&mut roster, seconds(64), seconds(90), &[WORKER]);
    assert_eq!(roster.failure().unwrap().code(), Code::ServerLost);
}

#[test]
fn a_server_that_was_only_silent_is_forgiven_and_not_restored() {
    let mut roster = running();
    roster.wait_for_servers(seconds(60));
    pass(&mut roster, seconds(0), seconds(30), &[WORKER]);
    assert_eq!(roster.lost_servers().collect::<Vec<_>>(), [PS]);
    roster.beat(seconds(30), PS, Incarnation(1), MemberState::Here).unwrap();
    assert_eq!((roster.take_returned(), roster.lost_servers().count()), (vec![], 0));
    assert_eq!(roster.take_events(), [RosterEvent::ServerLost(PS), RosterEvent::ServerBack(PS)]);
    pass(&mut roster, seconds(30), seconds(200), &[WORKER, PS]);
    assert!(roster.phase() == Phase::Running && roster.failure().is_none());
    assert!(roster.take_events().is_empty() && roster.take_lost().is_empty());
}

#[test]
fn a_chief_that_was_stopped_blames_nobody() {
    let mut roster = running();
    let stopped = Duration::from_millis(7500);
    let mut now = seconds(1);
    pass(&mut roster, seconds(0), now, &[PS, WORKER]);
    for _ in 0..4 {
        now += stopped;
        // It checks the leases before it reads the heartbeats that arrived, and is stopped again before it has read
        // them.
        roster.tick(now);
        assert!(roster.suspected(now, LEASE).is_empty());
    }
    assert_eq!((roster.take_lost(), roster.phase()), (vec![], Phase::Running));
    assert_eq!(roster.take_events(), [RosterEvent::ChiefStalled(stopped); 4]);
    // Awake, it detects silent tasks again.
    pass(&mut roster, now, now + LEASE, &[PS]);
    assert_eq!((roster.take_lost(), roster.phase()), (vec![(WORKER, Incarnation(1))], Phase::Running));
}

#[test]
fn a_lost_server_has_its_grace_in_the_chiefs_awake_time() {
    let mut roster = running();
    roster.wait_for_servers(seconds(60));
    pass(&mut roster, seconds(0), seconds(10), &[WORKER]);
    roster.tick(seconds(100));
    assert_eq!((roster.phase(), roster.lost_servers().count()), (Phase::Running, 1));
    roster.beat(seconds(100), PS, Incarnation(1), MemberState::Here).unwrap();
    assert_eq!(roster.lost_servers().count(), 0);
}

#[test]
fn servers_are_let_go_after_the_trainers() {
    let mut roster = running();
    roster.end(seconds(1));
    assert_eq!(roster.beat(seconds(1), PS, Incarnation(1), MemberState::Here).unwrap(), Phase::Ending);
    assert!(!roster.everybody_knows());
    assert_eq!(roster.beat(seconds(1), WORKER, Incarnation(1), MemberState::Leaving).unwrap(), Phase::Over);
    assert_eq!(roster.beat(seconds(1), PS, Incarnation(1), MemberState::Here).unwrap(), Phase::Over);
    assert!(roster.everybody_knows() && !roster.everybody_is_gone());
    roster.beat(seconds(1), PS, Incarnation(1), MemberState::Leaving).unwrap();
    assert!(roster.everybody_is_gone());
}

#[test]
fn a_trainer_that_does_not_stop_does_not_keep_the_job_from_ending() {
    let mut roster = running();
    roster.end(seconds(1));
    pass(&mut roster, seconds(1), seconds(3), &[]);
    assert_eq!(roster.phase(), Phase::Over);
}

#[test]
fn a_workers_own_mistake_ends_the_job_and_a_lost_connection_does_not() {
    for (code, phase) in [(Code::NotFinite, Phase::Ending), (Code::OutcomeUnknown, Phase::Running)] {
        let mut roster = running();
        let member_state = MemberState::Failed(Error::new(code, "x"));
        roster.beat(seconds(1), WORKER, Incarnation(1), member_state).unwrap();
        assert!(roster.phase() >= phase && (phase == Phase::Ending) == roster.failure().is_some());
    }
}

#[test]
fn a_task_nobody_listed_is_refused() {
    let stranger = TaskId::new(Role::Worker, 7);
    let refused = running().beat(seconds(0), stranger, Incarnation(1), MemberState::Here).unwrap_err();
    assert_eq!(refused.code(), Code::NoSuchTask);
}

#[test]
fn a_chief_that_was_started_again_does_not_wait_for_trainers_that_have_left() {
    let mut roster = Roster::new([PS, WORKER], LEASE);
    roster.formed_before(seconds(0));
    pass(&mut roster, seconds(0), LEASE, &[PS]);
    assert_eq!(roster.phase(), Phase::Forming, "the worker has a lease to come");
    pass(&mut roster, LEASE, seconds(6), &[PS]);
    assert_eq!(roster.phase(), Phase::Running);
    pass(&mut roster, seconds(6), seconds(7), &[PS, WORKER]);
    assert!(roster.missing().is_empty(), "a worker that is started again is welcome");
}

#[test]
fn a_chief_that_was_started_again_waits_for_every_server() {
    let mut roster = Roster::new([PS, WORKER], LEASE);
    roster.formed_before(seconds(0));
    pass(&mut roster, seconds(0), seconds(60), &[WORKER]);
    assert_eq!(roster.phase(), Phase::Forming);
}

#[test]
fn a_trainer_that_has_done_its_part_is_here_but_not_at_work() {
    let mut roster = Roster::new([PS, WORKER], LEASE);
    pass(&mut roster, seconds(0), seconds(1), &[PS, WORKER]);
    assert!(roster.trainers_here());
    roster.beat(seconds(1), WORKER, Incarnation(1), MemberState::Done).unwrap();
    assert!(!roster.trainers_here());
    assert!(roster.incarnations().any(|(task, _)| task == WORKER), "it is not lost");
    assert_eq!(roster.phase(), Phase::Running);
    roster.end(seconds(1));
    assert_eq!(roster.phase(), Phase::Over, "nobody is waited for");
}
