use super::super::harm::tests::recorded;
use super::*;

struct Setting {
    predictions: Predictions,
}

impl Setting {
    fn new() -> Setting {
        Setting {
            predictions: recorded(),
        }
    }

    fn app(&self, name: &str) -> AppIndex {
        self.predictions.find(name).expect(name)
    }

    /// Nodes of two CPUs called n0, n1 and so on, with what runs there.
    fn board(&self, running: &[&[&str]]) -> Board {
        let place = |(at, names): (usize, &&[&str])| Place {
            name: format!("n{at}"),
            cpus: 2,
            free_cpus: 2 - names.len() as u32,
            memory_mb: 1000,
            running: names.iter().map(|name| self.member(name)).collect(),
        };
        let places = running.iter().enumerate().map(place).collect();
        Board::new(places, &[], &self.predictions)
    }

    fn member(&self, name: &str) -> Member {
        Member {
            app: self.app(name),
            cpus: 1,
        }
    }

    fn wish(&self, name: &str, nodes: usize) -> Wish {
        Wish {
            app: self.app(name),
            cpus: 1,
            memory_mb: 0,
            allowed: (0..nodes).collect(),
            given: None,
            impatient: false,
        }
    }

    fn node(&mut self, board: &mut Board, wish: &Wish) -> Option<usize> {
        match board.place(wish, &mut self.predictions) {
            Verdict::Node { at, .. } => Some(at),
            Verdict::Wait { .. } | Verdict::Nowhere => None,
        }
    }
}

#[test]
fn the_node_without_harm_is_chosen_and_the_other_named() {
    let mut setting = Setting::new();
    let mut board = setting.board(&[&["numpy-stream"], &["redis-closed"]]);
    let wish = setting.wish("awk", 2);
    let verdict = board.place(&wish, &mut setting.predictions);
    let Verdict::Node { at: 1, why } = verdict else {
        panic!("{verdict:?}");
    };
    assert!(why.contains("on n0 awk would keep"), "{why}");
}

#[test]
fn a_job_waits_for_a_full_node_rather_than_hurt_and_for_none_where_all_hurt() {
    let mut setting = Setting::new();
    let full: &[&str] = &["redis-closed", "redis-closed"];
    let mut board = setting.board(&[&["numpy-stream"], full]);
    let wish = setting.wish("awk", 2);
    assert_eq!(setting.node(&mut board, &wish), Some(1));

    let mut board = setting.board(&[&["numpy-stream"], &["numpy-stream", "redis-closed"]]);
    let mut wish = setting.wish("awk", 2);
    let Verdict::Wait { why } = board.place(&wish, &mut setting.predictions) else {
        panic!("there is no place without harm");
    };
    assert!(why.contains("would hurt on every node"), "{why}");
    // Later it takes the place that is there.
    wish.impatient = true;
    assert_eq!(setting.node(&mut board, &wish), Some(0));
}

#[test]
fn those_given_a_node_count_for_those_that_come_after() {
    let mut setting = Setting::new();
    let mut board = setting.board(&[&[], &[]]);
    let stream = setting.wish("numpy-stream", 2);
    let first = setting.node(&mut board, &stream).expect("empty nodes");
    let awk = setting.wish("awk", 2);
    assert_eq!(setting.node(&mut board, &awk), Some(1 - first));
    // A second stream hurts the first, and awk.
    assert_eq!(setting.node(&mut board, &stream), None);
    let redis = setting.wish("redis-closed", 2);
    let third = setting.node(&mut board, &redis);
    let fourth = setting.node(&mut board, &redis);
    assert!(third.is_some() && fourth.is_some() && third != fourth);
    // Full: it queues where it does no harm, and suffers none.
    let lua = setting.wish("lua", 2);
    assert_eq!(setting.node(&mut board, &lua), Some(1 - first));
}

#[test]
fn who_needs_more_cpus_is_not_overtaken() {
    let mut setting = Setting::new();
    let mut board = setting.board(&[&["redis-closed"]]);
    let mut wide = setting.wish("gcc", 1);
    wide.cpus = 2;
    assert_eq!(setting.node(&mut board, &wide), Some(0));
    assert!(board.reserved[0]);
    let narrow = setting.wish("gcc", 1);
    assert_eq!(setting.node(&mut board, &narrow), Some(0));
    assert_eq!(
        board.places[0].free_cpus, 1,
        "the free CPU is kept for the first"
    );
    wide.cpus = 3;
    assert_eq!(
        board.place(&wide, &mut setting.predictions),
        Verdict::Nowhere
    );
}

#[test]
fn a_job_keeps_its_node_unless_it_could_start_elsewhere() {
    let mut setting = Setting::new();
    let busy: &[&str] = &["redis-closed", "redis-closed"];
    let mut wish = setting.wish("gcc", 2);
    wish.given = Some(1);
    let mut board = setting.board(&[busy, busy]);
    assert_eq!(setting.node(&mut board, &wish), Some(1));
    let mut board = setting.board(&[&["redis-closed"], busy]);
    assert_eq!(setting.node(&mut board, &wish), Some(0));
}

#[test]
fn of_free_places_without_harm_the_best_by_the_policy_is_taken() {
    let mut setting = Setting::new();
    let mut board = setting.board(&[&["gcc"], &["redis-closed"], &["numpy-stream"]]);
    let wish = setting.wish("stockfish", 3);
    let ids = board.ids.clone();
    let app = setting.predictions.app(wish.app).clone();
    let worth = board.ranking.of(&app, &board.cluster, &ids);
    let best = (0..3).max_by(|a, b| worth[*a].net.total_cmp(&worth[*b].net));
    assert_eq!(setting.node(&mut board, &wish), best);
}
