"""PageRank of a Barabási-Albert graph, by power iteration."""

DAMPING = 0.85


def graph(vertices, edges, seed):
    """Each vertex v > 0 makes min(v, edges) edges to earlier ones; how likely one is chosen grows with the edges it has."""
    neighbours = [[] for _ in range(vertices)]
    ends = [0]
    state = seed
    for vertex in range(1, vertices):
        known = len(ends)
        for _ in range(min(vertex, edges)):
            state = state * 48271 % 2147483647
            target = ends[state % known]
            neighbours[vertex].append(target)
            neighbours[target].append(vertex)
            ends.append(target)
            ends.append(vertex)
    return neighbours


def ranks(neighbours, iterations):
    count = len(neighbours)
    rank = [1 / count] * count
    for _ in range(iterations):
        share = [rank[vertex] / len(neighbours[vertex]) for vertex in range(count)]
        rank = [(1 - DAMPING) / count + DAMPING * sum([share[other] for other in neighbours[vertex]]) for vertex in range(count)]
    return rank


def main(params):
    rank = ranks(graph(params["vertices"], params["edges"], params["seed"]), params["iterations"])
    first = max(range(len(rank)), key=rank.__getitem__)
    return {"first": first, "rank": rank[first], "sum": sum(rank)}
