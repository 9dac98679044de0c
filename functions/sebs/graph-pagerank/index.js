'use strict';

// PageRank of a Barabási-Albert graph, by power iteration.

const DAMPING = 0.85;

/** Each vertex v > 0 makes min(v, edges) edges to earlier ones; how likely one is chosen grows with the edges it has. */
function graph(vertices, edges, seed) {
  const neighbours = Array.from({ length: vertices }, () => []);
  const ends = [0];
  let state = seed;
  for (let vertex = 1; vertex < vertices; vertex++) {
    const known = ends.length;
    for (let edge = Math.min(vertex, edges); edge > 0; edge--) {
      state = (state * 48271) % 2147483647;
      const target = ends[state % known];
      neighbours[vertex].push(target);
      neighbours[target].push(vertex);
      ends.push(target, vertex);
    }
  }
  return neighbours;
}

function ranks(neighbours, iterations) {
  const count = neighbours.length;
  let rank = new Float64Array(count).fill(1 / count);
  for (let iteration = 0; iteration < iterations; iteration++) {
    const next = new Float64Array(count);
    for (let vertex = 0; vertex < count; vertex++) {
      let sum = 0;
      for (const other of neighbours[vertex]) sum += rank[other] / neighbours[other].length;
      next[vertex] = (1 - DAMPING) / count + DAMPING * sum;
    }
    rank = next;
  }
  return rank;
}

exports.main = ({ vertices, edges, seed, iterations }) => {
  const rank = ranks(graph(vertices, edges, seed), iterations);
  let first = 0;
  let sum = 0;
  rank.forEach((value, vertex) => {
    sum += value;
    if (value > rank[first]) first = vertex;
  });
  return { first, rank: rank[first], sum };
};
