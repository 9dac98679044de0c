'use strict';

// Breadth-first search from vertex 0 through a Barabási-Albert graph.

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

/** How many vertices lie 0, 1, 2 … steps from vertex 0. */
function layers(neighbours) {
  const seen = new Uint8Array(neighbours.length);
  seen[0] = 1;
  const sizes = [];
  for (let layer = [0]; layer.length > 0;) {
    sizes.push(layer.length);
    const following = [];
    for (const vertex of layer) {
      for (const other of neighbours[vertex]) {
        if (seen[other]) continue;
        seen[other] = 1;
        following.push(other);
      }
    }
    layer = following;
  }
  return sizes;
}

exports.main = ({ vertices, edges, seed }) => ({ layers: layers(graph(vertices, edges, seed)) });
