"""Reads recorded outputs of the tools and plays rounds among made-up sides.
Needs no tool and no jostle."""

import random
import sys
import unittest

import dials
import pairs
import report
import tools
from commands import Unavailable
from commands import last_words

RECORDED = None


def recorded(name):
    return (RECORDED / f"{name}.txt").read_text()


class Readers(unittest.TestCase):
    def test_likwid(self):
        load = tools.read_likwid(recorded("likwid-load"))
        self.assertAlmostEqual(load["bytes"], 256390.13e6, delta=1e4)
        self.assertEqual(load["flops"], 0)
        # The rate is bytes of all iterations over their time: nothing is off by 1024.
        self.assertAlmostEqual(load["iterations"] * 32000 / load["seconds"] / load["bytes"], 1, 5)
        peak = tools.read_likwid(recorded("likwid-peakflops"))
        self.assertAlmostEqual(peak["flops"], 67629.10e6, delta=1)
        both = tools.read_likwid(recorded("likwid-copy"))
        self.assertEqual(both["iterations"], 4, "of one thread, not of both")

    def test_stress_ng(self):
        rates = tools.read_memrate(recorded("stress-ng-memrate"))
        self.assertEqual(len(rates), 10)
        self.assertEqual(rates["read64"], 1831.22 * 2**20)
        self.assertFalse(any(method.startswith("write") for method in rates))
        doubled = tools.read_memrate(recorded("stress-ng-memrate"), 2)
        self.assertEqual(doubled["read64"], 2 * rates["read64"])
        total = tools.read_stream(recorded("stress-ng-stream"))
        self.assertAlmostEqual(total, (3576.66 + 2384.44 + 3268.64 + 2179.09) * 2**20, delta=1)

    def test_sysbench(self):
        self.assertEqual(tools.read_sysbench(recorded("sysbench")), 8228.34 * 2**20)

    def test_fio(self):
        reading = {"bytes": 594574705, "operations": 145159.840160}
        self.assertEqual(tools.read_fio(recorded("fio")), reading)
        # It may warn before its document.
        self.assertEqual(tools.read_fio("note: both iodepth\n" + recorded("fio")), reading)

    def test_iperf3(self):
        self.assertAlmostEqual(tools.read_iperf3(recorded("iperf3")) * 8, 799704420.715099, delta=1)

    def test_jostle(self):
        moves = tools.document(recorded("jostle-l2-bandwidth"), "jostle")
        self.assertEqual(tools.rate_of(moves), moves["achieved_pressure"])
        holds = tools.document(recorded("jostle-l1d"), "jostle")
        self.assertEqual(tools.rate_of(holds), holds["operations_per_second"] * 64)
        reads = tools.document(recorded("jostle-storage-bandwidth"), "jostle")
        self.assertEqual(tools.rate_of(reads, "operations"), reads["operations_per_second"])
        self.assertEqual(tools.achieved_percent(holds), 50.0)
        once = reads["operations_per_second"]
        self.assertEqual(tools.flop_rate(reads, tools.VECTOR_FLOPS, "avx512"), 16 * once)
        with self.assertRaises(Unavailable):
            tools.flop_rate(reads, tools.VECTOR_FLOPS, None)
        for missing in ("operations_per_second", "achieved_percent"):
            del holds[missing]
        with self.assertRaises(Unavailable):
            tools.rate_of(holds)
        with self.assertRaises(Unavailable):
            tools.achieved_percent(holds)

    def test_what_cannot_be_read_is_unavailable_never_zero(self):
        for read, text in (
            (tools.read_likwid, "ERROR: Unknown test"),
            (tools.read_memrate, recorded("stress-ng-memrate-short")),
            (tools.read_stream, recorded("stress-ng-stream-short")),
            (tools.read_sysbench, "FATAL: Cannot find benchmark"),
            (tools.read_fio, recorded("fio-failed")),
            (tools.read_fio, "fio: engine io_uring not loadable"),
            (tools.read_iperf3, recorded("iperf3-refused")),
        ):
            with self.assertRaises(Unavailable, msg=text[:60]):
                read(text)

    def test_last_words(self):
        clap = "error: unexpected argument '--peer'\n\nUsage: jostle run\n\nFor more, '--help'.\n"
        self.assertEqual(last_words(clap), "error: unexpected argument '--peer'")
        self.assertEqual(last_words("one\ntwo\n\n"), "two")
        self.assertEqual(last_words("jostle: fp: unavailable: why"), "fp: unavailable: why")


def side(name, values):
    """Takes `values` in turn; an exception among them is raised."""
    rest = list(values)

    def measure():
        value = rest.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    return pairs.Contender(name, measure)


def played(ours, peers, rounds=3):
    pair = pairs.Pair("l1d", "", "B/s", side("ours", ours), [side(*peer) for peer in peers])
    pairs.play([pair], rounds, random.Random(1), lambda _: True, lambda _: None)
    return pair


class Rounds(unittest.TestCase):
    def test_ratio_is_taken_round_by_round(self):
        pair = played([90, 50, 110], [("peer", [100, 50, 100])])
        ratio = pair.ratio(pair.best_peer())
        self.assertEqual((ratio.median, ratio.low, ratio.high), (1.0, 0.9, 1.1))
        self.assertEqual((ratio.of_best, ratio.rounds), (1.1, 3))
        self.assertEqual(pair.verdict(), "met")

    def test_the_bar_is_against_the_best_peer(self):
        pair = played([90, 90, 90], [("weaker", [80, 80, 80]), ("stronger", [100, 100, 100])])
        self.assertEqual(pair.best_peer().name, "stronger")
        self.assertEqual(pair.verdict(), "short by 0.05")

    def test_the_hopeless_play_two_rounds_and_are_never_the_best(self):
        sides = [("weak", [69, 60]), ("unsteady", [1, 85, 1]), ("strong", [100, 50, 50])]
        pair = played([1, 1, 1], sides)
        self.assertEqual([len(peer.values) for peer in pair.peers], [2, 3, 3])
        self.assertEqual(pair.best_peer().name, "strong")

    def test_who_fails_keeps_what_it_did_and_says_why(self):
        gone = Unavailable("not installed: apt-get install likwid")
        pair = played([100, 100, 100], [("gone", [gone]), ("there", [100, 100, 100])])
        self.assertEqual((pair.peers[0].values, pair.peers[0].reason), ({}, str(gone)))
        self.assertEqual(pair.verdict(), "met")
        ours = played([gone], [("there", [100])])
        self.assertEqual(ours.verdict(), "unavailable")
        self.assertEqual(played([1, 1, 1], [("gone", [gone])]).verdict(), "no peer")

    def test_who_fails_once_plays_on(self):
        late = Unavailable("it may need more time")
        pair = played([100, 100, 100], [("late", [200, late, 200]), ("there", [100, 100, 100])])
        self.assertEqual(list(pair.peers[0].values), [0, 2])
        self.assertEqual(pair.best_peer().name, "late")

    def test_no_round_begins_after_the_time_is_up(self):
        pair = pairs.Pair("l1d", "", "B/s", side("ours", [1, 1]), [])
        rounds = pairs.play([pair], 5, random.Random(1), lambda done: done < 2, lambda _: None)
        self.assertEqual((rounds, len(pair.ours.values)), (2, 2))

    def test_dials(self):
        peak = dials.Peak(lambda most=None: most * 0.9 if most else 200.0)
        dial = dials.Dial("l1d", "theirs", peak.dial, peak.prepare)
        dead = dials.Dial("l1d", "dead", None, side("dead", [Unavailable("no")]).measure)
        dials.turn([dial, dead], dials.LEVELS, random.Random(1), lambda _: None)
        self.assertAlmostEqual(dial.reading(50), 45.0)
        self.assertAlmostEqual(dial.worst_error(), 7.5)
        self.assertEqual((dead.worst_error(), dead.reason), (None, "no"))
        self.assertEqual(report.over_bar(7.5), "over by 5.5")
        self.assertEqual(report.over_bar(2.0), "met")

    def test_report(self):
        self.assertEqual(report.scaled(406.8e9, "B/s"), "406.8 GB/s")
        self.assertEqual(report.scaled(999.9, "op/s"), "999.9 op/s")
        pair = played([90, 90, 90], [("peer", [100, 100, 100])])
        row = report.strength_rows([pair])[1]
        numbers = ["0.90", "0.90-0.90 (3)", "0.90"]
        self.assertEqual(row[3:], ["peer *", "100 B/s", *numbers, "short by 0.05"])


def run(directory):
    """0 when all holds."""
    global RECORDED
    RECORDED = directory
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1
