"""Breadth-first search from vertex 0 through a Barabási-Albert graph."""


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


def layers(neighbours):
    """How many vertices lie 0, 1, 2 … steps from vertex 0."""
    seen = bytearray(len(neighbours))
    seen[0] = 1
    layer, sizes = [0], []
    while layer:
        sizes.append(len(layer))
        following = []
        for vertex in layer:
            for other in neighbours[vertex]:
                if not seen[other]:
                    seen[other] = 1
                    following.append(other)
        layer = following
    return sizes


def main(params):
    return {"layers": layers(graph(params["vertices"], params["edges"], params["seed"]))}
