use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

struct Job {
    now: Instant,
    it: Supervision,
}

impl Job {
    fn new(tasks: &[&str]) -> Self {
        let tasks: Vec<TaskId> = tasks.iter().map(|task| id(task)).collect();
        let now = Instant::now();
        let servers = tasks.iter().any(|task| task.role == Role::Ps);
        let mut it = Supervision::new(now, &tasks, Some(id("chief/0")), servers, Rules::default());
        let starts: Vec<Action> = tasks.iter().map(|&task| Action::Start(task, 1)).collect();
        assert_eq!(it.next(now), starts);
        Self { now, it }
    }

    fn after(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.it.next(self.now)
    }

    fn ends(&mut self, task: &str, end: impl Into<AttemptEnd>) -> Next {
        self.it.ended(self.now, id(task), &end.into())
    }

    /// Kills a task until its restarts are used up.
    fn uses_up_its_restarts(&mut self, task: &str) {
        for (attempt, pause) in [(2, 500), (3, 1000), (4, 2000)] {
            let pause = Duration::from_millis(pause);
            assert_eq!(self.ends(task, Exit::Signal(9)), Next::Restart(pause));
            assert_eq!(self.after(pause), [Action::Start(id(task), attempt)]);
        }
    }
}

#[test]
fn servers_that_never_exit_are_stopped_and_then_killed() {
    let mut job = Job::new(&["chief/0", "worker/0", "ps/0"]);
    assert_eq!(job.ends("chief/0", Exit::Code(0)), Next::Over);
    assert_eq!(job.after(9 * SECOND), [], "a worker still computes");
    job.ends("worker/0", Exit::Code(0));
    assert_eq!(job.after(2 * SECOND), []);
    assert_eq!(job.after(SECOND), [Action::Terminate(id("ps/0"))]);
    assert_eq!(job.after(3 * SECOND), [Action::Kill(id("ps/0"))]);
    assert!(!job.it.is_over());
    job.ends("ps/0", Exit::Signal(9));
    assert!(job.it.is_over());
    assert_eq!(job.it.ending(), Some(&Ending::Success));
}

#[test]
fn workers_get_time_and_the_evaluator_more() {
    let mut job = Job::new(&["chief/0", "worker/0", "evaluator/0"]);
    job.ends("chief/0", Exit::Code(0));
    assert_eq!(job.after(10 * SECOND), [Action::Terminate(id("worker/0"))]);
    job.ends("worker/0", Exit::Code(143));
    assert_eq!(job.after(109 * SECOND), []);
    assert_eq!(job.after(SECOND), [Action::Terminate(id("evaluator/0"))]);
}

#[test]
fn a_killed_task_comes_back_with_growing_pauses_and_not_forever() {
    for task in ["worker/0", "chief/0"] {
        // Without parameter servers every worker holds a part of the state.
        let mut job = Job::new(&["chief/0", "worker/0"]);
        job.uses_up_its_restarts(task);
        assert_eq!(job.ends(task, Exit::Signal(9)), Next::Over);
        assert_eq!(job.it.ending(), Some(&Ending::Failed(id(task), Exit::Signal(9))));
    }
}

#[test]
fn restarts_of_long_ago_are_forgiven() {
    let mut job = Job::new(&["chief/0", "ps/0"]);
    for _ in 0..20 {
        job.after(Duration::from_secs(201));
        let Next::Restart(pause) = job.ends("ps/0", Exit::Signal(9)) else { panic!("it fails rarely") };
        assert!(pause <= Duration::from_secs(2), "{pause:?}");
        assert_eq!(job.after(pause).len(), 1);
    }
    assert_eq!(job.it.ending(), None);
    // Many within a short time are still too many.
    job.after(Duration::from_secs(601));
    job.now += Duration::from_secs(601);
    let mut restarts = 0;
    while let Next::Restart(pause) = job.ends("ps/0", Exit::Signal(9)) {
        restarts += 1;
        job.after(pause);
    }
    assert_eq!(restarts, 3);
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("ps/0"), Exit::Signal(9))));
}

#[test]
fn a_worker_that_fails_too_often_is_given_up_and_not_the_job() {
    let mut job = Job::new(&["chief/0", "worker/0", "worker/1", "ps/0"]);
    job.uses_up_its_restarts("worker/0");
    assert_eq!(job.ends("worker/0", Exit::Signal(9)), Next::GiveUp);
    assert_eq!(job.after(3600 * SECOND), []);
    assert_eq!(job.it.ending(), None);
    // A permanent failure is the program's fault and ends the job.
    job.ends("worker/1", Exit::Code(1));
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("worker/1"), Exit::Code(1))));
}

#[test]
fn a_worker_without_which_no_job_forms_is_not_given_up() {
    let mut job = Job::new(&["chief/0", "worker/0", "ps/0"]);
    job.it.joined(id("ps/0"));
    job.uses_up_its_restarts("worker/0");
    assert_eq!(job.ends("worker/0", Exit::Signal(9)), Next::Over);
    assert!(matches!(job.it.ending(), Some(Ending::Failed(..))));
}

#[test]
fn the_last_trainer_here_is_not_given_up() {
    let now = Instant::now();
    let rules = Rules { max_restarts: 0, ..Rules::default() };
    let tasks = [id("worker/0"), id("ps/0")];
    let mut it = Supervision::new(now, &tasks, Some(id("chief/0")), true, rules);
    it.next(now);
    assert_eq!(it.ended(now, id("worker/0"), &Exit::Signal(9).into()), Next::Over);
    assert!(matches!(it.ending(), Some(Ending::Failed(..))));
}

#[test]
fn a_start_that_the_system_refuses_is_tried_again_and_costs_no_restart() {
    let mut job = Job::new(&["chief/0", "ps/0"]);
    let refused = || Exit::NoResources("too many open files".to_owned());
    let began = job.now;
    while job.now < began + Duration::from_secs(500) {
        let Next::Restart(pause) = job.ends("ps/0", refused()) else { panic!("given up after {:?}", job.now - began) };
        assert!(pause <= Duration::from_secs(30));
        assert_eq!(job.after(pause).len(), 1);
    }
    let mut restarts = 0;
    for _ in 0..3 {
        let Next::Restart(pause) = job.ends("ps/0", Exit::Signal(9)) else { break };
        restarts += 1;
        job.after(pause);
    }
    assert_eq!(restarts, 3, "refused starts were not counted");
    assert_eq!(job.it.ending(), None);
    // But not forever.
    let began = job.now;
    while let Next::Restart(pause) = job.ends("ps/0", refused()) {
        job.after(pause);
        assert!(job.now < began + Duration::from_secs(700));
    }
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("ps/0"), refused())));
}

#[test]
fn a_task_that_relays_a_failure_is_not_its_cause() {
    let relayed = AttemptEnd { exit: Exit::Code(1), relayed: true };
    let mut job = Job::new(&["chief/0", "worker/0", "ps/0", "ps/1"]);
    job.ends("ps/0", relayed.clone());
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("ps/0"), Exit::Code(1))), "nothing better is known yet");
    assert_eq!(job.after(SECOND).len(), 3);
    job.ends("ps/1", relayed);
    job.ends("worker/0", Exit::Signal(15));
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("ps/0"), Exit::Code(1))), "a requested stop is no cause");
    job.ends("chief/0", Exit::Code(2));
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("chief/0"), Exit::Code(2))));
}

#[test]
fn the_first_failure_is_the_cause_and_later_ones_are_not() {
    let mut job = Job::new(&["chief/0", "worker/0", "worker/1"]);
    assert_eq!(job.ends("worker/1", Exit::Code(1)), Next::Over);
    job.ends("chief/0", Exit::Code(138));
    assert_eq!(job.it.ending(), Some(&Ending::Failed(id("worker/1"), Exit::Code(1))));
    assert_eq!(job.after(SECOND), [Action::Terminate(id("worker/0"))]);
    assert!(job.it.stop_was_requested(id("worker/0")) && !job.it.stop_was_requested(id("chief/0")));
}

#[test]
fn an_evaluator_that_fails_stops_nobody() {
    let mut job = Job::new(&["chief/0", "evaluator/0"]);
    assert_eq!(job.ends("evaluator/0", Exit::Code(1)), Next::Over);
    assert_eq!(job.it.ending(), None);
    job.ends("chief/0", Exit::Code(0));
    assert!(job.it.is_over());
}

#[test]
fn ctrl_c_asks_first_and_the_second_one_ends() {
    let mut job = Job::new(&["chief/0", "ps/0"]);
    job.it.stop(job.now, true);
    assert_eq!(job.after(SECOND), [Action::Interrupt(id("chief/0")), Action::Interrupt(id("ps/0"))]);
    job.ends("chief/0", Exit::Code(130));
    job.it.stop(job.now, true);
    assert_eq!(job.after(Duration::ZERO), [Action::Kill(id("ps/0"))]);
    assert_eq!(job.it.ending(), Some(&Ending::Stopped(true)));
}

#[test]
fn sigterm_leaves_time_for_a_checkpoint() {
    let mut job = Job::new(&["chief/0"]);
    job.it.stop(job.now, false);
    assert_eq!(job.after(SECOND), [Action::Terminate(id("chief/0"))]);
    assert_eq!(job.after(24 * SECOND), []);
    assert_eq!(job.after(SECOND), [Action::Kill(id("chief/0"))]);
}

#[test]
fn without_the_chief_here_all_trainers_count_and_servers_stay() {
    let now = Instant::now();
    let rules = Rules { server_grace: None, ..Rules::default() };
    let mut it = Supervision::new(now, &[id("worker/0"), id("ps/1")], Some(id("chief/0")), true, rules);
    it.next(now);
    it.ended(now, id("worker/0"), &Exit::Code(0).into());
    assert_eq!(it.next(now + 3600 * SECOND), []);
    it.ended(now, id("ps/1"), &Exit::Code(0).into());
    assert!(it.is_over());
}

#[test]
fn policies_can_be_set_by_role() {
    let now = Instant::now();
    let mut rules = Rules::default();
    rules.restart[2] = Restart::Never;
    rules.restart[1] = Restart::OnFailure;
    let tasks = [id("chief/0"), id("worker/0"), id("ps/0")];
    let mut it = Supervision::new(now, &tasks, Some(id("chief/0")), true, rules);
    it.next(now);
    assert!(matches!(it.ended(now, id("worker/0"), &Exit::Code(1).into()), Next::Restart(_)));
    assert_eq!(it.ended(now, id("ps/0"), &Exit::Signal(9).into()), Next::Over);
    assert!(matches!(it.ending(), Some(Ending::Failed(..))));
}

#[test]
fn a_worker_that_was_done_is_restarted_with_the_chief() {
    let mut job = Job::new(&["chief/0", "worker/0", "worker/1", "ps/0"]);
    assert_eq!(job.ends("worker/0", Exit::Code(0)), Next::Over);
    assert_eq!(job.after(60 * SECOND), [], "it is done");
    assert_eq!(job.ends("chief/0", Exit::Code(138)), Next::Restart(SECOND / 2));
    assert_eq!(job.after(SECOND / 2), [Action::Start(id("chief/0"), 2), Action::Start(id("worker/0"), 2)]);
    job.ends("worker/0", Exit::Code(0));
    job.ends("worker/1", Exit::Code(0));
    job.ends("chief/0", Exit::Code(0));
    assert_eq!(job.it.ending(), Some(&Ending::Success));
}
