#!/usr/bin/env python3
"""The correlator beside two engines of others: random cases, and where they differ.

    compare.py --ringtap PROGRAM [--rsigma PROGRAM] [--seed N] [--users N] [--work DIR]

Needs eql 1.0.1 (PyPI) for the first part; for the second the program of rsigma.rs. A case is a rule and a key: the events of each user are
made by chance, all users are in one file, and each rule judges all of them. What is compared:

- temporal_ordered with `sequence by … with maxspan` of eql: when the first match of each key is complete, if there is one.
- event_count, value_count, temporal and temporal_ordered with rsigma-eval: at each whole second at which a key has an event of the rule,
  whether the condition holds.

Exit code 1 when something differs that is in no class that is known.
"""
import argparse
import collections
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

BASE = 1_700_000_000 * 10**9
TICK = 100  # ns: what eql counts in
SECOND = 10**9
LETTERS = "abcd"


def identifier(letter):
    """rsigma-eval hands on only what a rule with an id matched, and knows it by that alone."""
    return f"00000000-0000-4000-8000-00000000000{letter}"


def detections():
    text = ""
    for letter in LETTERS:
        text += f"title: {letter}\nid: {identifier(letter)}\nname: {letter}\nlogsource: {{product: test}}\n"
        text += f"detection: {{s: {{{letter}: 1}}, condition: s}}\n---\n"
    return text


def correlation(name, kind, letters, keys, seconds, condition=None):
    of = f"title: {name}\nname: {name}\ncorrelation:\n  type: {kind}\n  rules: [{', '.join(map(identifier, letters))}]\n"
    of += f"  group-by: [{', '.join(keys)}]\n  timespan: {seconds}s\n"
    return of + (f"  condition: {{{condition}}}\n" if condition else "")


def ordered_rules(rng, spans):
    """Name, steps, key, timespan."""
    rules = []
    for steps in (2, 3, 4):
        for seconds in spans:
            for keys in (["user"], ["host", "user"]):
                letters = rng.sample(LETTERS, steps)
                rules.append((f"ordered_{'_'.join(letters)}_{seconds}s_{len(keys)}", letters, keys, seconds))
    return rules


def event(rng, time, user, values):
    letters = rng.choice(LETTERS) if rng.random() < 0.8 else "".join(rng.sample(LETTERS, rng.randint(0, 4)))
    it = {"time": time, "user": user, "host": rng.choice(("n", "s")), "value": rng.choice(values)}
    return it | {letter: 1 for letter in letters}


def events(rng, users, gaps, values=("v0", "v1", "v2", "v3")):
    """In the order of time; of equal stamps in that of their making."""
    made = []
    for user in range(users):
        time = BASE
        for _ in range(rng.randint(2, 24)):
            time += rng.choice(gaps)(rng)
            made.append(event(rng, time, f"u{user}", values))
    return sorted(made, key=lambda it: it["time"])


def ringtap(program, work, rules, made):
    """What it opens and closes, in order: name of the rule, key, opened, closed."""
    with open(os.path.join(work, "rules.yml"), "w") as file:
        file.write(rules)
    with open(os.path.join(work, "events.json"), "w") as file:
        file.writelines(json.dumps(it) + "\n" for it in made)
    arguments = [program, "correlate", "--rules", file_of(work, "rules.yml"), "--read", file_of(work, "events.json"), "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "not used" not in done.stderr, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    summary = told[-1]
    assert summary["event"] == "summary" and summary["events"] == len(made), summary
    assert not summary["could_not_have_seen"], summary
    opened = {}
    for it in told:
        if it["event"] == "opened":
            opened[it["id"]] = [it["rule"], tuple(it["key"].values()), it["opened_ns"], None]
        elif it["event"] == "closed":
            opened[it["id"]][3] = it["closed_ns"]
    assert all(it[3] is not None for it in opened.values())
    return sorted(opened.values(), key=lambda it: it[2])


def file_of(work, name):
    return os.path.join(work, name)


def first_of(incidents):
    first = {}
    for rule, key, opened, _ in incidents:
        first.setdefault((rule, key), opened)
    return first


def place(letters, it):
    """The lowest step that an event matches."""
    return min((number for number, letter in enumerate(letters) if letter in it), default=len(letters))


def by_eql(rules, made, is_our_order=True):
    """When the first match of each rule and key is complete."""
    import eql

    first = {}
    for name, letters, keys, seconds in rules:
        query = f"sequence by {', '.join(keys)} with maxspan={seconds}s " + " ".join(f"[any where {it} == 1]" for it in letters)
        engine = eql.PythonEngine()
        with eql.parser.ignore_missing_fields:
            engine.add_query(eql.parse_query(query))

        def found(output, name=name, keys=keys):
            last = output.events[-1]
            first.setdefault((name, tuple(last.data[key] for key in keys)), last.time)

        engine.add_output_hook(found)
        feed = sorted(made, key=lambda it: (it["time"], place(letters, it))) if is_our_order else made
        for it in feed:
            engine.stream_event(eql.Event("any", (it["time"] - BASE) // TICK, it))
        engine.finalize()
    return {case: BASE + time * TICK for case, time in first.items()}


def differing(one, other):
    return sorted(case for case in one.keys() | other.keys() if one.get(case) != other.get(case))


def cases(rules, made):
    return sum(len({tuple(it[key] for key in keys) for it in made}) for _, _, keys, _ in rules)


def is_by_ties(rule, case, ours, made):
    """Whether some order of a case's events of equal stamp and equal lowest step makes eql find what ringtap does."""
    _, letters, keys, _ = rule
    of = [it for it in made if tuple(it[key] for key in keys) == case[1] and place(letters, it) < len(letters)]
    of.sort(key=lambda it: (it["time"], place(letters, it)))
    groups = [list(group) for _, group in itertools.groupby(of, key=lambda it: (it["time"], place(letters, it)))]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    for order in itertools.islice(orders, 20_000):
        found = by_eql([rule], [it for group in order for it in group], is_our_order=False)
        if found.get(case) == ours.get(case):
            return True
    return False


def with_eql(arguments, work):
    rng = random.Random(arguments.seed)
    spans = (1, 2, 5)
    rules = ordered_rules(rng, spans)
    text = detections() + "---\n".join(correlation(name, "temporal_ordered", *rest) for name, *rest in rules)
    gaps = [lambda _: 0, lambda _: TICK, lambda _: SECOND // 2, lambda rng: rng.randrange(0, 2 * SECOND, TICK)]
    gaps += [lambda _, at=at: at * SECOND for at in spans] + [lambda _, at=at: at * SECOND + TICK for at in spans]
    made = events(rng, arguments.users, gaps)
    ours = first_of(ringtap(arguments.ringtap, work, text, made))
    theirs = by_eql(rules, made)
    wrong = differing(ours, theirs)
    named = {rule[0]: rule for rule in rules}
    ties = [case for case in wrong if is_by_ties(named[case[0]], case, ours, made)]
    wrong = [case for case in wrong if case not in ties]
    print(f"eql: {len(made)} events, {cases(rules, made)} cases of {len(rules)} rules, {len(ours)} with a match:"
          f" {len(ties)} differ by the order of equal stamps and equal lowest steps, {len(wrong)} otherwise")
    for case in wrong[:5]:
        print(f"  {case}: ringtap {ours.get(case)}, eql {theirs.get(case)}")
    # Events of one stamp as they came, and not in the order of the steps.
    shuffled = list(made)
    rng.shuffle(shuffled)
    shuffled.sort(key=lambda it: it["time"])
    ties = differing(ours, by_eql(rules, shuffled, is_our_order=False))
    same = first_of(ringtap(arguments.ringtap, work, text, shuffled))
    print(f"  equal stamps in any order: ringtap finds {'the same' if same == ours else 'OTHER THINGS'}, eql differs in {len(ties)} cases")
    # Events as they arrive, each up to five seconds late.
    late = [(it["time"] + rng.randrange(0, 5 * SECOND), number) for number, it in enumerate(made)]
    arrived = [made[number] for _, number in sorted(late)]
    disorder = differing(ours, by_eql(rules, arrived, is_our_order=False))
    again = first_of(ringtap(arguments.ringtap, work, text, arrived))
    print(f"  each up to 5 s late: ringtap finds {'the same' if again == ours else 'OTHER THINGS'}, eql differs in {len(disorder)} cases")
    return not wrong and same == ours and again == ours


def counted_rules(rng):
    """Name, kind, letters, key, timespan, condition."""
    rules = []
    conditions = ["gte: 2", "gte: 3", "gt: 1", "gt: 3", "eq: 1", "eq: 2", "lte: 2", "lt: 3", "gte: 2, lte: 3"]
    for kind in ("event_count", "value_count"):
        for number, condition in enumerate(conditions):
            letters = rng.sample(LETTERS, rng.randint(1, 3))
            keys = (["user"], ["host", "user"])[number % 2]
            condition += ", field: value" if kind == "value_count" else ""
            rules.append((f"{kind}_{number}", kind, letters, keys, rng.choice((2, 3, 5)), condition))
    for kind in ("temporal", "temporal_ordered"):
        for number in range(9):
            letters = rng.sample(LETTERS, 2 + number % 3)
            rules.append((f"{kind}_{number}", kind, letters, (["user"], ["host", "user"])[number % 2], rng.choice((2, 3, 5)), None))
    return rules


HOLDS = {"gte": lambda n, m: n >= m, "gt": lambda n, m: n > m, "eq": lambda n, m: n == m, "lte": lambda n, m: n <= m, "lt": lambda n, m: n < m}


def holds(condition, count):
    parts = [part.split(": ") for part in condition.split(", ") if not part.startswith("field")]
    return all(HOLDS[name](count, int(most)) for name, most in parts)


def chains(window, letters, after):
    """Whether there is a chain of all steps, `after` saying which event may follow which."""
    ends = [number for number, it in enumerate(window) if letters[0] in it]
    for letter in letters[1:]:
        ends = [at for at, it in enumerate(window) if letter in it and any(after(end, at, window) for end in ends)]
    return bool(ends)


def any_order(window, letters, at=0, used=(), time=0):
    """The same of different events, those of one stamp in any order."""
    if at == len(letters):
        return True
    return any(any_order(window, letters, at + 1, (*used, number), it["time"]) for number, it in enumerate(window)
               if letters[at] in it and number not in used and it["time"] >= time)


def class_of(rule, window, ours, theirs):
    """Why the two say different things of what is in a timespan, by definition; `None` where that does not explain it."""
    _, kind, letters, _, _, condition = rule
    if kind == "event_count":
        matches = sum(letter in it for it in window for letter in letters)
        if ours == holds(condition, len(window)) and theirs == holds(condition, matches):
            return "an event of several rules counts once (ringtap), or for each of them (rsigma-eval)"
    if kind == "temporal_ordered" and theirs and not ours:
        if chains(window, letters, lambda one, other, of: of[one]["time"] < of[other]["time"]):
            return None
        if not any_order(window, letters):
            return "one event for several steps (rsigma-eval alone)"
        stamps = collections.Counter(it["time"] for it in window)
        if any(stamps[it["time"]] > 1 and sum(letter in it for letter in letters) > 1 for it in window):
            return "events of one stamp, one of them of several steps: in a fixed order (ringtap), or in any (rsigma-eval)"
    return None


def fired_by(arguments, work):
    done = subprocess.run([arguments.rsigma, file_of(work, "theirs.yml"), file_of(work, "events.json")],
                          capture_output=True, text=True, check=True)
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return {(int(number), rule, tuple(key)) for number, rule, *key in lines}


def with_rsigma(arguments, work):
    rng = random.Random(arguments.seed + 1)
    rules = counted_rules(rng)
    gaps = [lambda _, at=at: at * SECOND for at in (0, 0, 1, 1, 1, 2, 3, 4, 5, 6)]
    made = events(rng, arguments.users, gaps)
    held = collections.defaultdict(list)
    text = detections() + "---\n".join(correlation(name, *rest) for name, *rest in rules)
    for rule, key, opened, closed in ringtap(arguments.ringtap, work, text, made):
        held[rule, key].append((opened, closed))
    # Without a condition rsigma-eval takes one rule of a temporal correlation for all of them.
    all_of = [(name, kind, letters, *rest, condition or f"gte: {len(letters)}") for name, kind, letters, *rest, condition in rules]
    with open(file_of(work, "theirs.yml"), "w") as file:
        file.write(detections() + "---\n".join(correlation(name, *rest) for name, *rest in all_of))
    fired = fired_by(arguments, work)
    judged, both, differ, within = (collections.Counter() for _ in range(4))
    unknown = []
    for rule in rules:
        name, kind, letters, keys, seconds, _ = rule
        of_key = collections.defaultdict(list)
        for number, it in enumerate(made):
            if place(letters, it) < len(letters):
                of_key[tuple(it[key] for key in keys)].append((number, it))
        for key, of in of_key.items():
            for time, group in itertools.groupby(of, key=lambda pair: pair[1]["time"]):
                numbers = [number for number, _ in group]
                # Only with the last event of a stamp all of it are in.
                ours = any(opened <= time < closed for opened, closed in held[name, key])
                theirs = (numbers[-1], name, key) in fired
                judged[kind] += 1
                both[kind] += ours and theirs
                within[kind] += not theirs and any((number, name, key) in fired for number in numbers)
                if ours != theirs:
                    window = [it for _, it in of if time - seconds * SECOND <= it["time"] <= time]
                    why = class_of(rule, window, ours, theirs)
                    differ[kind, why] += 1
                    if why is None:
                        unknown.append((name, key, (time - BASE) // SECOND, ours, theirs))
    print(f"rsigma-eval: {len(made)} events, {len(rules)} rules")
    for kind, count in judged.items():
        print(f"  {kind}: {count} instants, {both[kind]} at which both say that it holds;"
              f" rsigma-eval fired within a stamp and not at its end: {within[kind]}")
        for (of, why), number in sorted(differ.items(), key=str):
            if of == kind:
                print(f"    {number} differ: {why or 'NO KNOWN CLASS'}")
    for name, key, at, ours, theirs in unknown[:5]:
        print(f"  {name} {key} at +{at} s: ringtap {ours}, rsigma-eval {theirs}")
    return not unknown


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ringtap", required=True)
    parser.add_argument("--rsigma")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--work")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        work = arguments.work or made
        good = with_eql(arguments, work)
        if arguments.rsigma:
            good = with_rsigma(arguments, work) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
