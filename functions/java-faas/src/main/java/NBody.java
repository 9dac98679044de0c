/**
 * The Sun and the four giant planets under gravity: n steps of a hundredth of a year each, first the velocities, then the
 * positions. Prints the system's energy before and after, in units of the Sun's mass, astronomical units and years.
 */
public final class NBody {
    private static final double SUN = 4 * Math.PI * Math.PI;
    private static final double YEAR = 365.24;
    private static final double STEP = 0.01;

    // Position and velocity (a day) in the ecliptic, and mass: the Sun, Jupiter, Saturn, Uranus, Neptune.
    private static final double[][] START = {
        {0, 0, 0, 0, 0, 0, 1},
        {4.84143144246472090e+00, -1.16032004402742839e+00, -1.03622044471123109e-01,
         1.66007664274403694e-03, 7.69901118419740425e-03, -6.90460016972063023e-05, 9.54791938424326609e-04},
        {8.34336671824457987e+00, 4.12479856412430479e+00, -4.03523417114321381e-01,
         -2.76742510726411899e-03, 4.99852801234917238e-03, 2.30417297573763929e-05, 2.85885980666130812e-04},
        {1.28943695621391310e+01, -1.51111514016986312e+01, -2.23307578892655734e-01,
         2.96460137564761618e-03, 2.37847173959480950e-03, -2.96589568540237556e-05, 4.36624404335156298e-05},
        {1.53796971148509165e+01, -2.59193146099879641e+01, 1.79258772950371181e-01,
         2.68067772490389322e-03, 1.62824170038242295e-03, -9.51592254519715870e-05, 5.15138902046611451e-05},
    };

    private final int bodies = START.length;
    private final double[] position = new double[3 * bodies];
    private final double[] velocity = new double[3 * bodies];
    private final double[] mass = new double[bodies];

    private NBody() {
        double[] momentum = new double[3];
        for (int b = 0; b < bodies; b++) {
            mass[b] = START[b][6] * SUN;
            for (int axis = 0; axis < 3; axis++) {
                position[3 * b + axis] = START[b][axis];
                velocity[3 * b + axis] = START[b][3 + axis] * YEAR;
                momentum[axis] += velocity[3 * b + axis] * mass[b];
            }
        }
        // The Sun moves so that the whole stays where it is.
        for (int axis = 0; axis < 3; axis++) {
            velocity[axis] = -momentum[axis] / SUN;
        }
    }

    public static void main(String[] args) {
        int n = Size.of(10000);
        NBody system = new NBody();
        System.out.println(Decimal.nine(system.energy()));
        for (int step = 0; step < n; step++) {
            system.advance();
        }
        System.out.println(Decimal.nine(system.energy()));
    }

    private void advance() {
        for (int a = 0; a < bodies; a++) {
            for (int b = a + 1; b < bodies; b++) {
                double dx = position[3 * a] - position[3 * b];
                double dy = position[3 * a + 1] - position[3 * b + 1];
                double dz = position[3 * a + 2] - position[3 * b + 2];
                double squared = dx * dx + dy * dy + dz * dz;
                double pull = STEP / (squared * Math.sqrt(squared));
                push(a, -mass[b] * pull, dx, dy, dz);
                push(b, mass[a] * pull, dx, dy, dz);
            }
        }
        for (int i = 0; i < position.length; i++) {
            position[i] += STEP * velocity[i];
        }
    }

    private void push(int body, double by, double dx, double dy, double dz) {
        velocity[3 * body] += dx * by;
        velocity[3 * body + 1] += dy * by;
        velocity[3 * body + 2] += dz * by;
    }

    private double energy() {
        double energy = 0;
        for (int a = 0; a < bodies; a++) {
            double squared = 0;
            for (int axis = 0; axis < 3; axis++) {
                squared += velocity[3 * a + axis] * velocity[3 * a + axis];
            }
            energy += 0.5 * mass[a] * squared;
            for (int b = a + 1; b < bodies; b++) {
                double apart = 0;
                for (int axis = 0; axis < 3; axis++) {
                    double d = position[3 * a + axis] - position[3 * b + axis];
                    apart += d * d;
                }
                energy -= mass[a] * mass[b] / Math.sqrt(apart);
            }
        }
        return energy;
    }
}
