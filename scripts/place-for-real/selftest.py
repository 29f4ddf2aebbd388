"""Checks what the numbers of a batch come to. Needs no jostle."""

import unittest


def batch(first, second, placed):
    """Two times of divisions of four programs, each with what every program keeps."""
    kept = lambda percent: {name: {"percent": percent, "ci95": [percent, percent]} for name in "abcd"}
    measured = {division: [kept(x), kept(second[division])] for division, x in first.items()}
    return {
        "programs": list("abcd"),
        "order": list("abcd"),
        "placed": placed,
        "divisions": len(measured),
        "measured": measured,
    }


def run(module):
    class Judging(unittest.TestCase):
        def test_every_division_is_tried_once(self):
            for count, divisions in [(4, 8), (5, 16), (6, 32)]:
                found = list(module.divisions(list("abcdef")[:count]))
                self.assertEqual(len(set(found)), divisions)
                self.assertTrue(all("a" in division for division in found))

        def test_the_best_is_judged_by_the_other_time(self):
            # a+b was lucky once: chosen by its luck, it is worth 50.
            first = {"a+b": 60.0, "a+c": 55.0, "a": 40.0}
            second = {"a+b": 50.0, "a+c": 55.0, "a": 40.0}
            placed = {"good": "a+c", "bad": "a", "none": None}
            rows = module.judged(batch(first, second, placed), 90)
            # Chosen by the first time a+b, worth 50 in the second; then a+c, worth 55.
            self.assertEqual(rows["best"][0], 52.5)
            self.assertEqual(rows["good"][0], 55.0)
            self.assertEqual(rows["bad"][:2], [40.0, 0.0])
            self.assertEqual(rows["good"][1], 100.0)
            self.assertIsNone(rows["none"])
            self.assertEqual(rows["random"][0], 50.0)

        def test_sharing_evenly_is_best_by_the_geometric_mean(self):
            even = {name: {"percent": 50.0} for name in "abcd"}
            uneven = {name: {"percent": percent} for name, percent in zip("abcd", (100.0, 34.0, 34.0, 34.0))}
            one = batch({"a+b": 0.0, "a": 0.0}, {"a+b": 0.0, "a": 0.0}, {"p": "a", "q": "a+b"})
            one["measured"] = {"a+b": [even, even], "a": [uneven, uneven]}
            rows = module.judged(one, 90)
            self.assertEqual(rows["best"][0], 50.5)
            self.assertAlmostEqual(rows["best"][2], 50.0)
            self.assertAlmostEqual(rows["p"][2], (100 * 34**3) ** 0.25)
            self.assertEqual(rows["p"][1], 25.0)

        def test_a_division_that_failed_is_left_out(self):
            one = batch({"a+b": 60.0}, {"a+b": 60.0}, {"p": "a+c"})
            one["measured"]["a+c"] = [None, None]
            rows = module.judged(one, 90)
            self.assertIsNone(rows["p"])
            one["measured"] = {"a+c": [None, None]}
            self.assertIsNone(module.judged(one, 90))

        def test_a_batch_with_divisions_to_come_does_not_count(self):
            one = batch({"a+b": 60.0, "a": 50.0}, {"a+b": 60.0, "a": 50.0}, {"p": "a+b"})
            one["measured"]["a"].pop()
            self.assertIsNone(module.judged(one, 90))

        def test_batches_use_all_programs_alike(self):
            class Args:
                batches, programs, seed = 6, 4, 3

            names = [f"p{n}" for n in range(8)]
            drawn = module.drawn(Args, names)
            counts = [sum(name in batch for batch, _ in drawn) for name in names]
            self.assertEqual(set(counts), {3})
            self.assertTrue(all(sorted(order) == batch for batch, order in drawn))

        def test_the_table_names_every_policy(self):
            first = {"a+b": 60.0, "a+c": 50.0}
            document = {
                "policies": ["p"],
                "qos_percent": 90,
                "batches": [batch(first, first, {"p": "a+c"}), batch(first, first, {"p": "a+b"})],
            }
            text = module.table(document)
            self.assertIn("| p | 55.0 ± 63.5 | 5.0 ± 63.5 | 55.0 ± 63.5 | 5.0 ± 63.5 |", text)
            self.assertNotIn("ahead", text)
            for each, placed in zip(document["batches"], ("a+c", "a+b")):
                each["placed"] = {"jostle": "a+b", "least-loaded": placed}
            self.assertIn("ahead of least-loaded by 5.0 ± 63.5 points", module.table(document))
            self.assertIn("| best | 60.0 ± 0.0 | 0 | 60.0 ± 0.0 | 0 |", text)

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Judging)
    result = unittest.TextTestRunner().run(suite)
    return 0 if result.wasSuccessful() else 1
