"""What llama.cpp's search for left recursion and its expansion of rules would do with a grammar, found without recursion."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_cli.errors import GrammarError

MAX_CHAIN = 2_500  # rules that begin with a rule that begins with a rule: llama.cpp recurses
MAX_STARTS = 10_000  # places where a rule can begin: llama.cpp compares each with each
MAX_VISITS = 1_000_000  # steps of llama.cpp's search for left recursion, which does not remember where it has been

TERMINAL = -1
Alternative = list[tuple[int, int]]  # (rule id or TERMINAL, elements that it takes in llama.cpp's rule)


def refusal(why: str, fix: str) -> GrammarError:
    return GrammarError("The grammar cannot be used.", why, fix)


def check_rules(rules: Sequence[list[Alternative]], owners: Sequence[str]) -> None:
    """Raise GrammarError for left recursion, rules that match nothing, and expansions that would not end.

    owners: for each rule the name in the grammar's text that it belongs to.
    """
    _Analysis(rules, owners).check()


class _Analysis:
    def __init__(self, rules: Sequence[list[Alternative]], owners: Sequence[str]) -> None:
        self.rules = rules
        self.owners = owners
        self.nullable = self._nullable()
        self.direct = [any(not sequence for sequence in alternatives) for alternatives in rules]
        self.starts: list[int] = []  # alternatives that begin with a character
        self.edges: list[list[tuple[int, bool]]] = []  # rules it can begin with; whether something follows them
        self.searched: list[list[int]] = []  # rules that llama.cpp's search goes into: it knows fewer empty ones
        for alternatives in rules:
            begins = [self._begin(sequence) for sequence in alternatives]
            self.starts.append(sum(on_character for _, on_character in begins))
            self.edges.append([edge for edges, _ in begins for edge in edges])
            self.searched.append([rule for sequence in alternatives for rule in self._search(sequence)])

    def _nullable(self) -> list[bool]:
        """Which rules can be empty, counted down from the items that keep an alternative from being so."""
        nullable = [False] * len(self.rules)
        users: list[list[tuple[int, list[int]]]] = [[] for _ in self.rules]
        found = []
        for rule, alternatives in enumerate(self.rules):
            for sequence in alternatives:
                left = [len(sequence)]
                for item, _ in sequence:
                    if item != TERMINAL:
                        users[item].append((rule, left))
                if not sequence:
                    found.append(rule)
        while found:
            empty = found.pop()
            if nullable[empty]:
                continue
            nullable[empty] = True
            for rule, left in users[empty]:
                left[0] -= 1
                if left[0] == 0:
                    found.append(rule)
        return nullable

    def _begin(self, sequence: Alternative) -> tuple[list[tuple[int, bool]], bool]:
        edges: list[tuple[int, bool]] = []
        for place, (item, _) in enumerate(sequence):
            if item == TERMINAL:
                return edges, True
            edges.append((item, place + 1 < len(sequence)))
            if not self.nullable[item]:
                break
        return edges, False

    def _search(self, sequence: Alternative) -> list[int]:
        found = []
        for item, _ in sequence:
            if item == TERMINAL:
                break
            found.append(item)
            if not self.direct[item]:
                break
        return found

    def check(self) -> None:
        order = self._search_order()
        self._check_search(order)
        component = _components([[rule for rule, _ in edges] for edges in self.edges])
        n_ways = [0] * (max(component) + 1)  # in which the rules of a component can begin, or be empty
        on_character = [False] * len(n_ways)
        for rule in sorted(range(len(self.rules)), key=component.__getitem__):  # what a rule begins with comes first
            here = component[rule]
            n_ways[here] += self.starts[rule] + self.nullable[rule]
            on_character[here] |= self.starts[rule] > 0
            for other, followed in self.edges[rule]:
                if component[other] != here:
                    n_ways[here] += n_ways[component[other]]
                    on_character[here] |= on_character[component[other]]
                elif followed:
                    raise self._left_recursion(rule)
            if n_ways[here] > MAX_STARTS:
                raise refusal(
                    f"Rule {self.owners[rule]!r} can begin in more than {MAX_STARTS} ways.",
                    "Use fewer alternatives, or let those that begin alike share their beginning.",
                )
        for rule in range(len(self.rules)):
            if not (self.nullable[rule] or on_character[component[rule]]):
                raise refusal(f"Rule {self.owners[rule]!r} can match no text.", "Give it an alternative that ends.")

    def _left_recursion(self, rule: int) -> GrammarError:
        return refusal(
            f"Rule {self.owners[rule]!r} can begin with itself (left recursion), or repeats what may be empty.",
            'Write repetition as ( ... )*, for example: list ::= item ("," item)*',
        )

    def _search_order(self) -> list[int]:
        """Rules in an order in which those that the search goes into come first; a cycle is left recursion."""
        waiting = [len(inner) for inner in self.searched]
        users: list[list[int]] = [[] for _ in self.rules]
        for rule, inner in enumerate(self.searched):
            for other in inner:
                users[other].append(rule)
        order = [rule for rule, n in enumerate(waiting) if n == 0]
        for rule in order:
            for user in users[rule]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    order.append(user)
        if len(order) < len(self.rules):
            stuck = {rule for rule, n in enumerate(waiting) if n}
            cycles = _components([[other for other in inner if other in stuck] for inner in self.searched])
            on_cycle = [
                rule
                for rule in stuck
                if rule in self.searched[rule]
                or any(cycles[rule] == cycles[other] for other in self.searched[rule] if other != rule)
            ]
            raise self._left_recursion(min(on_cycle))
        return order

    def _check_search(self, order: list[int]) -> None:
        depth = [1] * len(self.rules)
        visits = [1] * len(self.rules)
        for rule in order:
            for other in self.searched[rule]:
                depth[rule] = max(depth[rule], depth[other] + 1)
                visits[rule] += visits[other]
            if depth[rule] > MAX_CHAIN or visits[rule] > MAX_VISITS:
                raise refusal(
                    f"Rule {self.owners[rule]!r} begins with rules that begin with rules, too many times over.",
                    "Write the beginnings out, or use fewer alternatives.",
                )


def _components(edges: list[list[int]]) -> list[int]:
    """Tarjan's strongly connected components, without recursion: a number for each node, successors first."""
    index = [-1] * len(edges)
    low = [0] * len(edges)
    component = [-1] * len(edges)
    path: list[int] = []
    n_seen = n_components = 0
    for start in range(len(edges)):
        if index[start] >= 0:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = n_seen
        n_seen += 1
        path.append(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if index[other] < 0:
                    index[other] = low[other] = n_seen
                    n_seen += 1
                    path.append(other)
                    work.append((other, iter(edges[other])))
                    break
                if component[other] < 0:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[path.pop()] = n_components
                    n_components += 1
    return component
