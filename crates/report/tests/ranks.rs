//! Summaries of ranks, merged: which are alike, which differ and in what, which are missing.

use nearfar_analyze::{CountedValue, Interval, Pattern, Verdict};
use nearfar_compare::ranks::*;
use nearfar_machine::Machine;
use nearfar_recording::Rank;
use nearfar_report::ranks::{to_json, to_text};

fn object(name: &str, time: f64, far: Option<f64>) -> RankObject {
    RankObject {
        key: format!("key of {name}"),
        name: name.into(),
        allocated_at: Some("solver.c:12".into()),
        bytes: 1 << 26,
        time_share: time,
        far_share: far,
        far_time_share: far.map(|far| far * time),
        pattern: Pattern::Blocked,
    }
}

fn phase(name: &str, own: f64, far: Option<f64>) -> RankPhase {
    RankPhase {
        name: name.into(),
        calls: 10,
        seconds: own + 1.0,
        own_seconds: own,
        far_share: far,
        part_of_far: far,
    }
}

/// One of `size` ranks, eight a host, each on two cpus of one node.
fn summary(rank: u32, size: u32) -> Summary {
    let local = rank % 8;
    Summary {
        schema: summary::SCHEMA,
        nearfar: "1.0.0".into(),
        rank: Rank {
            launch: "slurm-1.0".into(),
            launcher: "Slurm".into(),
            rank,
            size: Some(size),
            local_rank: Some(local),
            local_size: Some(8),
            host: format!("node{}", rank / 8),
            cpus: [2 * local, 2 * local + 1].into_iter().collect(),
        },
        command: vec!["./solver".into(), "input".into()],
        build: Some("abc".into()),
        exit: Some("exit 0".into()),
        ended_early: None,
        seconds: 10.0 + f64::from(rank % 3) * 0.1,
        cpu_seconds: Some(19.0),
        recorded_on: "2 nodes".into(),
        machine_key: "m".into(),
        judged_on: "2x8".into(),
        node_ids: vec![0, 1],
        assumed: false,
        binding: "recorded".into(),
        given_nodes: vec![local / 4],
        threads: 2,
        working_threads: Some(2),
        thread_nodes: vec![local / 4],
        samples: 9000,
        lost: Some(0),
        verdict: Verdict::Clean,
        verdict_why: "little is far".into(),
        far_share: Some(0.004),
        far_share_ci: Some(Interval { low: 0.001, high: 0.009 }),
        waiting_share: Some(0.01),
        node_matrix: Some(vec![vec![0.5, 0.0], vec![0.0, 0.5]]),
        objects: vec![object("field", 0.8, Some(0.0)), object("halo", 0.1, Some(0.1))],
        objects_left_out: 0,
        findings: Vec::new(),
        phases: vec![phase("step => solve", 8.0, Some(0.0)), phase("step", 1.0, None)],
        phases_left_out: 0,
        host_counted: None,
        notes: Vec::new(),
    }
}

fn run(summaries: impl IntoIterator<Item = Summary>) -> Run {
    let found: Vec<Found> = summaries
        .into_iter()
        .map(|s| Found { host: s.rank.host.clone(), rank: s.rank.rank, summary: Ok(Box::new(s)) })
        .collect();
    let size = found.first().and_then(|f| f.summary.as_ref().ok()?.rank.size);
    merge("slurm-1.0", "Slurm", size, found, Vec::new())
}

fn page(run: &Run) -> String {
    to_text(run, "run", 100, false)
}

#[test]
fn ranks_that_are_alike_are_one_class_and_none_differs() {
    let run = run((0..64).map(|n| summary(n, 64)));
    assert_eq!((run.classes.len(), run.classes[0].ranks.len()), (1, 64));
    assert!(run.ranks.iter().all(|r| r.differs.is_empty() && r.state == State::Complete));
    assert_eq!((run.missing_count, run.seconds.unwrap().median), (Some(0), 10.1));
    let text = page(&run);
    assert!(text.starts_with("Clean: 64 of 64 ranks."), "{text}");
    assert!(!text.contains("differ") && !text.contains("did not end well"), "{text}");
    // Eight hosts, eight ranks each.
    let table: Vec<&str> = text.lines().filter(|l| l.ends_with("........")).collect();
    assert_eq!(table.len(), 8, "{text}");
    assert!(table[1].contains("node1") && table[1].contains("8-15"), "{text}");
}

#[test]
fn ranks_that_wait_for_the_slowest_are_said_to_and_which_it_is() {
    // Rank 5 has most to do.
    let slow = |waits: f64| {
        run((0..16)
            .map(|n| Summary { waiting_share: Some(if n == 5 { 0.02 } else { waits }), ..summary(n, 16) }))
    };
    let text = page(&slow(0.4)).replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "waiting for other threads or ranks: min 2.0 %, median 40 %, max 40 % of the time, least in rank 5, most in rank 0";
    assert!(text.contains(line), "{text}");
    assert_eq!(slow(0.4).ranks[0].waiting_share, Some(0.4));
    let text = page(&slow(0.04));
    assert!(!text.contains("waiting"), "{text}");
    // Recordings of before do not say it.
    let old = run((0..4).map(|n| Summary { waiting_share: None, ..summary(n, 4) }));
    assert!(old.waiting_share.is_none() && !page(&old).contains("waiting"));
}

#[test]
fn what_one_of_two_ranks_could_not_count_of_the_host_is_said() {
    let counted = |value: Option<f64>, why: Option<&str>| {
        let (name, of) = ("bytes read".to_owned(), "node 0".to_owned());
        let (unit, source, why) = ("bytes".to_owned(), "uncore_imc".to_owned(), why.map(str::to_owned));
        let values = vec![CountedValue { name, of, value, unit, running_share: None, source, why }];
        Some(summary::HostCounted { seconds: 1.5, values })
    };
    // The second goes on when the first has ended.
    let run = run((0..3).map(|n| {
        let mut s = summary(n, 3);
        s.host_counted = match n {
            0 => counted(Some(4e9), None),
            1 => counted(None, Some("other events had these counters for a part of the time")),
            _ => None,
        };
        s
    }));
    let value = &run.hosts[0].values[0];
    assert_eq!(run.hosts[0].by.iter().map(|by| by.rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(value.value, Some(4e9));
    assert!(value.why.as_ref().is_some_and(|why| why.contains("other events")), "{value:?}");
    let text = page(&run);
    assert!(text.contains("partly known"), "{text}");
}

#[test]
fn a_rank_that_is_bound_elsewhere_with_a_far_object_is_named_with_its_reasons() {
    let run = run((0..64).map(|n| {
        let mut s = summary(n, 64);
        if n == 37 {
            s.rank.cpus = (0..16).collect();
            (s.given_nodes, s.thread_nodes) = (vec![0, 1], vec![0, 1]);
            s.seconds = 15.0;
            s.verdict = Verdict::Affected;
            s.far_share = Some(0.44);
            s.far_share_ci = Some(Interval { low: 0.4, high: 0.48 });
            s.objects[0] = object("field", 0.8, Some(0.5));
            s.findings = vec!["serial_first_touch".into()];
        }
        s
    }));
    let named: Vec<u32> = run.ranks.iter().filter(|r| !r.differs.is_empty()).map(|r| r.rank).collect();
    assert_eq!(named, [37]);
    assert_eq!(
        run.ranks[37].differs,
        [
            "bound differently: 16 cpus (0-15) on 2 nodes (others: 2 cpus on 1 node)",
            "44 % of its time is at risk on far memory (others: 0.4 % to 0.4 %)",
            "field (solver.c:12) is on far pages for 40 % of the time (others: 0 %)",
            "slower: 15.00 s (median of the others: 10.10 s)",
            "verdict affected (others: clean)",
        ]
    );
    assert_eq!((run.objects[0].name.as_str(), run.objects[0].worst_rank), ("field", Some(37)));
    let text = page(&run);
    assert!(text.starts_with("Affected: far memory costs 1 of 64 ranks time (rank 37)."), "{text}");
    assert!(text.lines().any(|l| l.contains("node4") && l.ends_with(".....4..")), "{text}");
}

#[test]
fn phases_of_all_ranks_are_listed_and_the_one_that_makes_a_rank_differ_is_named() {
    let ranks = (0..16).map(|n| {
        let mut s = summary(n, 16);
        s.phases[0].own_seconds += f64::from(n % 3) * 0.1;
        if n == 5 {
            // As long as the others in all: they wait for it.
            s.phases[0].own_seconds = 12.5;
        }
        s
    });
    let run = run(ranks);
    let solve = &run.phases[0];
    assert_eq!((solve.name.as_str(), solve.longest_rank), ("step => solve", Some(5)));
    let own = solve.own_seconds.unwrap();
    assert_eq!((own.ranks, own.min, own.median, own.max), (16, 8.0, 8.1, 12.5));
    assert_eq!(run.phases[1].far_share, None, "unknown is not zero");
    for row in &run.ranks {
        let phase = row.differs.iter().any(|d| d.contains("phase step => solve takes longer: 12.50 s"));
        assert_eq!(phase, row.rank == 5, "{:?}", row.differs);
    }
    let text = page(&run);
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    assert!(row("step => solve ").contains(" 8.00 / 8.10 / 12.50 "), "{text}");
    assert!(row("step => solve ").ends_with(" 5"), "{text}");
    assert!(row("step  ").contains(" unknown "), "{text}");
}

/// The rank that is longest in a call of MPI waits for the others.
#[test]
fn a_rank_that_waits_in_mpi_does_not_differ() {
    let with = |name: &str| {
        let ranks = (0..16).map(|n| {
            let mut s = summary(n, 16);
            s.phases[0].name = name.into();
            s.phases[0].own_seconds = if n == 5 { 12.5 } else { 8.0 + f64::from(n % 3) * 0.1 };
            s
        });
        run(ranks).ranks[5].differs.clone()
    };
    assert_eq!(with("step => MPI_Allreduce()"), [""; 0]);
    assert_eq!(with("step => reduce_MPI_").len(), 1);
}

#[test]
fn a_summary_without_phases_of_an_older_version_is_read() {
    let mut value = serde_json::to_value(summary(3, 8)).unwrap();
    let fields = value.as_object_mut().unwrap();
    assert!(fields.remove("phases").is_some() && fields.remove("phases_left_out").is_some());
    let read = Summary::from_bytes(value.to_string().as_bytes()).unwrap();
    assert!(read.phases.is_empty() && read.rank.rank == 3);
}

#[test]
fn two_ranks_on_the_same_cpus_are_seen_where_others_have_their_own() {
    let run = run((0..16).map(|n| {
        let mut s = summary(n, 16);
        if n == 3 {
            s.rank.cpus = [0, 1].into_iter().collect();
        }
        s
    }));
    let named: Vec<u32> = run.ranks.iter().filter(|r| !r.differs.is_empty()).map(|r| r.rank).collect();
    assert_eq!(named, [0, 3]);
    assert!(run.ranks[3].differs[0].contains("more ranks on one of them"), "{:?}", run.ranks[3].differs);
}

#[test]
fn unbound_ranks_share_all_cpus_and_none_differs() {
    let run = run((0..8).map(|n| {
        let mut s = summary(n, 8);
        s.rank.cpus = (0..16).collect();
        s.given_nodes = vec![0, 1];
        s
    }));
    assert!(run.ranks.iter().all(|r| r.differs.is_empty()));
}

#[test]
fn missing_killed_unreadable_and_running_ranks_are_named_and_unknown_is_not_zero() {
    let mut found: Vec<Found> = (0..6)
        .map(|n| Found { host: "node0".into(), rank: n, summary: Ok(Box::new(summary(n, 8))) })
        .collect();
    if let Ok(s) = &mut found[1].summary {
        s.exit = Some("signal 9 (SIGKILL)".into());
        s.ended_early = Some("killed".into());
        (s.far_share, s.far_share_ci, s.cpu_seconds) = (None, None, None);
    }
    found[2].summary = Err(NoSummary::Killed);
    found[3].summary = Err(NoSummary::OtherVersion("9.0.0".into()));
    found[4].summary = Err(NoSummary::Running(77));
    found[5].summary = Err(NoSummary::Damaged("its summary.json is damaged".into()));
    let run = merge("l", "Slurm", Some(8), found, Vec::new());
    let states: Vec<State> = run.ranks.iter().map(|r| r.state).collect();
    use State::*;
    assert_eq!(states, [Complete, Killed, Unfinished, OtherVersion, Running, Damaged]);
    assert_eq!((&run.missing[..], run.missing_count), (&[6, 7][..], Some(2)));
    assert_eq!(run.far_share.unwrap().ranks, 1, "what is unknown is in no median");
    assert_eq!(
        run.verdict(),
        Verdict::Unknown,
        "what is known of some ranks is clean, and the others are not known"
    );
    let text = page(&run);
    for part in [
        "No verdict for the run: what is known of 2 ranks is clean",
        "killed: rank 1 (signal 9 (SIGKILL))",
        "unfinished: rank 2",
        "nearfar 9.0.0",
        "process 77",
        "missing: rank 6-7",
        ".?xxxx",
        "unknown of 5 ranks",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&to_json(&run)).unwrap();
    assert!(json["ranks"][1]["far_share"].is_null() && json["ranks"][2]["seconds"].is_null());
    assert_eq!(json["schema"], 1);
}

#[test]
fn without_a_size_missing_ranks_are_unknown_and_that_is_said() {
    let found = vec![Found { host: "h".into(), rank: 5, summary: Ok(Box::new(summary(5, 8))) }];
    let run = merge("unnamed", "PMI", None, found, Vec::new());
    assert_eq!((run.missing_count, run.verdict()), (None, Verdict::Unknown));
    assert!(page(&run).contains("did not say how many ranks"), "{}", page(&run));
}

#[test]
fn a_summary_survives_its_bytes_and_is_never_larger_than_it_may_be() {
    let small = summary(3, 8);
    assert_eq!(Summary::from_bytes(&small.to_bytes()).unwrap(), small);
    let mut large = summary(3, 8);
    large.node_matrix = Some(vec![vec![1.0 / 3.0; 254]; 254]);
    large.objects =
        (0..32).map(|i| object(&format!("{i}{}", "\u{1F980}".repeat(160)), 0.01, Some(0.1))).collect();
    let bytes = large.to_bytes();
    assert!(bytes.len() <= MOST_BYTES, "{}", bytes.len());
    let back = Summary::from_bytes(&bytes).unwrap();
    assert_eq!((back.node_matrix, back.objects.len() as u64 + back.objects_left_out), (None, 32));
}

#[test]
fn summaries_of_other_versions_and_impossible_ones_are_refused() {
    let mut value = serde_json::to_value(summary(3, 8)).unwrap();
    value["far_share"] = 7.0.into();
    let read = |v: &serde_json::Value| Summary::from_bytes(v.to_string().as_bytes());
    assert_eq!(read(&value), Err(summary::Unread::Damaged("7 for a share".into())));
    value["schema"] = 99.into();
    assert_eq!(read(&value), Err(summary::Unread::OtherVersion("1.0.0".into())));
    assert!(matches!(Summary::from_bytes(b"{"), Err(summary::Unread::Damaged(_))));
}

#[test]
fn ranks_divide_an_assumed_machine_and_keep_the_cpus_they_were_given_on_their_own() {
    let machine = Machine::from_shape("4x16").unwrap();
    let recorded = Machine::from_shape("1x8").unwrap();
    let cpus = |rank: &Rank, recorded: &Machine| -> Vec<usize> {
        slice::of_rank(&machine, recorded, rank).nodes.iter().map(|n| n.cpus.len()).collect()
    };
    let rank = |local: u32, of: u32| Rank {
        local_rank: Some(local),
        local_size: Some(of),
        cpus: [3].into_iter().collect(),
        ..summary(local, of).rank
    };
    assert_eq!(cpus(&rank(0, 4), &recorded), [16, 0, 0, 0]);
    assert_eq!(cpus(&rank(3, 4), &recorded), [0, 0, 0, 16]);
    assert_eq!(cpus(&rank(1, 2), &recorded), [0, 0, 16, 16]);
    assert_eq!(cpus(&rank(0, 3), &recorded), [16, 5, 0, 0]);
    assert_eq!(cpus(&rank(127, 128), &recorded), [0, 0, 0, 1]);
    let unknown = Rank { local_size: None, ..rank(0, 4) };
    assert_eq!(cpus(&unknown, &recorded), [16; 4], "not known to share: all of it");
    assert_eq!(cpus(&rank(3, 4), &machine), [1, 0, 0, 0], "its own cpus on the same machine");
}

#[test]
fn the_page_of_a_run_has_its_verdict_and_all_that_the_json_has() {
    use nearfar_report::{html, ranks};
    let with = |rank: u32, verdict| {
        let mut all: Vec<Summary> = (0..4).map(|n| summary(n, 4)).collect();
        all[rank as usize].verdict = verdict;
        all[0].rank.host = "</script><script>alert(1)</script>".into();
        run(all)
    };
    for verdict in [Verdict::Clean, Verdict::Unknown, Verdict::Affected] {
        let run = with(2, verdict);
        assert_eq!(run.verdict(), verdict);
        let page = html::ranks(&run, "run");
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let json: serde_json::Value = serde_json::from_str(&ranks::to_json(&run)).unwrap();
        assert_eq!(data["run"], json, "a host's name closes no element");
        assert!(
            page.contains(data["words"]["headline"].as_str().unwrap()),
            "its text is there without scripts, too"
        );
    }
    assert_eq!(run([]).verdict(), Verdict::Unknown, "no rank has a summary");
}

#[test]
fn ranks_on_other_nodes_are_not_alike_for_a_placement_file_and_ranks_adrift_are_told_apart() {
    let mut all: Vec<Summary> = (0..16).map(|n| summary(n, 16)).collect();
    all[3].far_share = Some(0.3);
    let of = |all: &[Summary]| alike(&all.iter().collect::<Vec<_>>());
    let groups = of(&all);
    let ranks: Vec<&[u32]> = groups.iter().map(|g| &g.ranks[..]).collect();
    assert_eq!(ranks, [&[0, 1, 2, 3, 8, 9, 10, 11][..], &[4, 5, 6, 7, 12, 13, 14, 15]]);
    assert_eq!((&groups[0].nodes[..], groups[0].worst, groups[0].adrift), (&[0][..], 3, false));
    assert_eq!((&groups[1].nodes[..], groups[1].worst), (&[1][..], 4));
    // One of them has all cpus of its host, which are other ranks', too.
    all[5].rank.cpus = (0..16).collect();
    all[5].given_nodes = vec![0, 1];
    let groups = of(&all);
    let wide = groups.iter().find(|g| g.ranks == [5]).unwrap();
    assert!(wide.adrift && groups.iter().filter(|g| g.adrift).count() == 1);
    // Alone on its host it keeps them.
    let groups = of(&all[5..6]);
    assert!(!groups[0].adrift);
}

#[test]
fn the_rank_that_is_bound_wrongly_is_named_with_the_reason_and_its_neighbours_are_not() {
    let machine = Machine::from_shape("2x8").unwrap();
    let of = |change: &dyn Fn(&mut Vec<Summary>)| {
        let mut all: Vec<Summary> = (0..16).map(|n| summary(n, 16)).collect();
        change(&mut all);
        bindings(&all.iter().collect::<Vec<_>>(), &machine)
    };
    let wrong = |b: &Bindings| b.classes.iter().flat_map(|c| c.wrong.clone()).collect::<Vec<_>>();
    let good = of(&|_| {});
    assert!(!good.wrong() && good.unknown.is_empty());
    assert_eq!((good.hosts, good.threads), (2, Some(2)));
    let wide = of(&|all| {
        all[5].rank.cpus = (0..16).collect();
        all[5].given_nodes = vec![0, 1];
    });
    assert_eq!(wrong(&wide), ["rank 5 is bound to cpus 0-15 on nodes 0-1; most ranks are on 1 node"]);
    assert_eq!((&wide.classes[1].ranks[..], wide.wrong()), (&[5][..], true));
    // Two ranks on one cpu while others of the host have none.
    let shared = of(&|all| all[3].rank.cpus = [0, 1].into_iter().collect());
    assert_eq!(
        wrong(&shared),
        [
            "rank 0 is bound to cpus 0-1, which rank 3 has, too; no rank is bound to cpus 6-7 of its host",
            "rank 3 is bound to cpus 0-1, which rank 0 has, too; no rank is bound to cpus 6-7 of its host",
        ]
    );
    // Where all ranks have all cpus, none is an exception, and none is bound.
    let free = of(&|all| all.iter_mut().for_each(|s| s.rank.cpus = (0..16).collect()));
    let lines = wrong(&free);
    assert!(
        lines.len() == 1 && lines[0].starts_with("rank 0-15 is not bound to a node: cpus 0-15"),
        "{lines:?}"
    );
    let unknown = of(&|all| all[7].rank.cpus = Default::default());
    assert_eq!((&unknown.unknown[..], unknown.wrong()), (&[7][..], false));
    let none = of(&|all| all.iter_mut().for_each(|s| s.working_threads = None));
    assert_eq!(none.threads, None, "unknown is not one");
}

/// Of two ranks that differ neither is the usual one; ranks that have to share cpus are not to blame.
#[test]
fn no_binding_is_called_wrong_without_a_majority_or_a_free_cpu() {
    let machine = Machine::from_shape("2x8").unwrap();
    let mut two: Vec<Summary> = [0, 8].map(|n| summary(n, 16)).to_vec();
    two[1].rank.cpus = (0..16).collect();
    assert!(!bindings(&two.iter().collect::<Vec<_>>(), &machine).wrong(), "alone on its host");
    let mut full: Vec<Summary> = (0..8).map(|n| summary(n, 8)).collect();
    full.push(Summary { rank: Rank { rank: 8, ..full[0].rank.clone() }, ..full[0].clone() });
    assert!(!bindings(&full.iter().collect::<Vec<_>>(), &machine).wrong(), "nine ranks on eight places");
}
