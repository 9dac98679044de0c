'use strict';
// Classes with inheritance, private fields, accessors, static methods, and a method under a computed name.

class Shape {
  #name;
  count = 0;

  constructor(name) {
    this.#name = name;
  }

  get name() {
    return this.#name;
  }

  set name(value) {
    this.#name = value;
  }

  describe() {
    this.count += 1;
    return `${this.name} of ${this.area()}`;
  }

  static largest(shapes) {
    let best = shapes[0];
    for (const shape of shapes) if (shape.area() > best.area()) best = shape;
    return best;
  }
}

class Square extends Shape {
  constructor(side) {
    super('square');
    this.side = side;
  }

  area() {
    return this.side * this.side;
  }
}

class Box extends Shape {
  sides = [1, 1];

  area() {
    return this.sides[0] * this.sides[1];
  }

  *[Symbol.iterator]() {
    for (const side of this.sides) yield side;
  }
}

function unused() {
  return new Shape('nothing');
}

exports.main = async ({ sides }) => {
  const box = new Box('box');
  box.sides = sides;
  box.name = 'a box';
  const shapes = [box, ...sides.map((side) => new Square(side))];
  return { largest: Shape.largest(shapes).describe(), sum: [...box].reduce((a, b) => a + b, 0), unused: typeof unused };
};
