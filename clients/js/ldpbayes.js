// Clients of local differential privacy, bit for bit those of the Python package ldpbayes (docs/wire-format.md).
//
// Every probability is a whole number of 128ths bits: a draw is compared with a threshold, and none is rejected and drawn again.
// A client makes the same draws whatever the answer, and selects its report by arithmetic. BigInt gives no constant time: where
// somebody can time single calls, send reports at fixed times.

const [BITS, FIXED] = [128n, 400n]; // of a threshold, and fractional ones of exp
const [MASK, GOLDEN] = [(1n << 64n) - 1n, 0x9e3779b97f4a7c15n];

/** A source of entropy: word(bits) is uniform below 2^bits. */
export const operatingSystem = {
  word(bits) {
    const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(bits / 8)));
    return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n) >> BigInt(8 * bytes.length - bits);
  },
};

// ---- exact numbers --------------------------------------------------------------------------------------------------------------
const floorDiv = (a, b) => (a >= 0n ? a / b : -((b - 1n - a) / b));
const ceilDiv = (a, b) => -floorDiv(-a, b);

/** A float as the whole numbers [m, d] with m/d equal to it. */
function exactly(x) {
  if (!Number.isFinite(x)) throw new RangeError("a parameter must be a finite number");
  let shift = 0n;
  while (!Number.isInteger(x)) [x, shift] = [2 * x, shift + 1n];
  return [BigInt(x), 1n << shift];
}

/** e^ε in units of 2^-400, rounded down. */
function expBelow(epsilon) {
  const [m, d] = exactly(epsilon);
  const bits = FIXED + 64n;
  const x = (m << bits) / (d << 8n); // ε/256, whose series is squared eight times
  let sum = 1n << bits;
  for (let k = 1n, term = sum; term > 0n; k += 1n) sum += (term = (term * x) / (k << bits));
  for (let k = 0; k < 8; k += 1) sum = (sum * sum) >> bits;
  return (sum - (sum >> 252n)) >> 64n;
}

/** 1 where a draw is at least the threshold, else 0, by a carry instead of a comparison. */
const passed = (draw, threshold) => ((draw + (4n << BITS) - threshold) >> BITS) - 3n;
const bernoulli = (source, threshold) => 1n - passed(source.word(128), threshold);
const below = (source, n) => (n * source.word(128)) >> BITS;
const either = (zero, one, bit) => zero + (one - zero) * bit;

function checked(value, n) {
  if (Number.isInteger(value) && value >= 0 && value < n) return value;
  throw new RangeError(`value must be an integer from 0 to ${n - 1}; what was given is private and not shown`);
}

function whole(n, least, what) {
  if (Number.isInteger(n) && n >= least) return n;
  throw new RangeError(`${what} must be an integer of at least ${least}`);
}

function level(epsilon) {
  if (epsilon >= 1e-9 && epsilon <= 50) return epsilon;
  throw new RangeError("epsilon must be a number from 1e-9 to 50");
}

// ---- protocols ------------------------------------------------------------------------------------------------------------------
/** Generalized randomized response. A report is a category from 0. */
export class GRR {
  constructor(categories, epsilon) {
    this.n = whole(categories, 2, "categories");
    const total = expBelow(level(epsilon)) + (BigInt(this.n - 1) << FIXED);
    this.units = ceilDiv(1n << (BITS + FIXED), total);
  }
  report(value, source = operatingSystem) {
    const n = BigInt(this.n);
    const draw = source.word(128);
    const other = 1n - passed(draw, (n - 1n) * this.units);
    return Number((n + BigInt(checked(value, this.n)) + other * (1n + draw / this.units)) % n);
  }
}

/** Unary encoding. A report is a text of zeros and ones, one for each category. */
export class UnaryEncoding {
  constructor(categories, epsilon, lam) {
    this.n = whole(categories, 2, "categories");
    if (!(lam > 0 && lam < 1)) throw new RangeError("lam must be a number between 0 and 1");
    const [m, d] = exactly(lam);
    this.lam = ceilDiv(m << BITS, d);
    const odds = expBelow(level(epsilon)) * this.lam;
    this.kappa = (odds << BITS) / ((((1n << BITS) - this.lam) << FIXED) + odds);
  }
  static optimized = (categories, epsilon) => new UnaryEncoding(categories, epsilon, 1 / (1 + Math.exp(epsilon)));
  static symmetric = (categories, epsilon) => new UnaryEncoding(categories, epsilon, 1 / (1 + Math.exp(epsilon / 2)));
  report(value, source = operatingSystem) {
    checked(value, this.n);
    const bits = Array.from({ length: this.n }, (_, x) => bernoulli(source, either(this.lam, this.kappa, BigInt(x === value))));
    return bits.join("");
  }
}

/** Subset selection. A report is a text of zeros and ones with exactly `size` ones. */
export class SubsetSelection {
  constructor(categories, epsilon, size) {
    this.n = whole(categories, 2, "categories");
    this.size = whole(size, 1, "size");
    if (size >= categories) throw new RangeError("size must be below the number of categories");
    const n = BigInt(categories);
    const slack = (1n << BITS) - (n > 2n ? 4n * n * n : 0n); // in units of 2^-128
    const lower = BigInt(size) * expBelow(level(epsilon)) * slack;
    this.hit = (lower << BITS) / (lower + ((n - BigInt(size)) << (FIXED + BITS)));
  }
  report(value, source = operatingSystem) {
    checked(value, this.n);
    const hit = bernoulli(source, this.hit);
    const others = [];
    let wanted = BigInt(this.size) - hit;
    for (let left = this.n - 1; left > 0; left -= 1) {
      const member = BigInt(below(source, BigInt(left)) < wanted);
      others.push(member);
      wanted -= member;
    }
    const members = Array.from({ length: this.n }, (_, x) => others[Math.min(x - Number(x > value), this.n - 2)]);
    members[value] = hit;
    return members.join("");
  }
}

/** Optimized or binary local hashing. A report is [seed, bucket]; the seed is a text of digits, for it may exceed 2^53. */
export class LocalHashing {
  constructor(categories, epsilon, buckets = Math.round(Math.exp(epsilon)) + 1) {
    this.n = whole(categories, 2, "categories");
    this.buckets = whole(buckets, 2, "buckets");
    this.inner = new GRR(buckets, epsilon);
  }
  report(value, source = operatingSystem) {
    const seed = below(source, 1n << 63n);
    return [String(seed), this.inner.report(bucketOf(seed, checked(value, this.n), this.buckets), source)];
  }
}

function mix64(word) {
  word = ((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  word = ((word ^ (word >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return word ^ (word >> 31n);
}

/** The bucket of a category under a seed: multiply-shift, with coefficients by SplitMix64. */
export function bucketOf(seed, category, buckets) {
  let key = category ^ (category >>> 16);
  key = Math.imul(key, 0x85ebca6b);
  key = Math.imul(key ^ (key >>> 13), 0xc2b2ae35);
  key ^= key >>> 16;
  const state = mix64(BigInt(seed) ^ GOLDEN);
  const [first, offset] = [1n, 3n].map((k) => mix64((state + k * GOLDEN) & MASK));
  const high = ((first * BigInt(key >>> 0) + offset) & MASK) >> 32n;
  return Number((high * BigInt(buckets)) >> 32n);
}

/** Hadamard response. A report is an integer below K, the least power of two above the number of categories. */
export class HadamardResponse {
  constructor(categories, epsilon) {
    this.n = whole(categories, 2, "categories");
    this.bits = categories.toString(2).length;
    const lower = expBelow(level(epsilon));
    this.hit = (lower << BITS) / ((1n << FIXED) + lower);
  }
  report(value, source = operatingSystem) {
    const index = checked(value, this.n) + 1;
    const inside = Number(bernoulli(source, this.hit));
    const report = Number(source.word(this.bits));
    let odd = index & report;
    for (const shift of [16, 8, 4, 2, 1]) odd ^= odd >>> shift;
    return report ^ ((index & -index) * (1 ^ (odd & 1) ^ inside));
  }
}

/** RAPPOR with permanent and instantaneous noise. A report is [cohort, text of zeros and ones]. */
export class Rappor {
  /** positions[category][cohort] lists the bits of the category's Bloom filter; rates are p, q and f as RAPPOR names them. */
  constructor(positions, p, q, f, bits) {
    this.positions = positions;
    this.bits = whole(bits, 1, "bits");
    this.cohorts = positions[0].length;
    const [flip, low] = [f / 2, p].map((x) => ceilDiv(exactly(x)[0] << BITS, exactly(x)[1]));
    const high = (exactly(q)[0] << BITS) / exactly(q)[1];
    [this.flip, this.p, this.q] = [flip, low, high > low ? high : low];
  }
  /** The permanent answer of a device: a function of the value's filter and of 32 secret bytes that the device keeps. */
  async permanent(value, key) {
    if (!(key instanceof Uint8Array) || key.length !== 32) throw new RangeError("key must be 32 secret bytes");
    const secret = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-512" }, false, ["sign"]);
    const text = new TextEncoder().encode(`('rappor', ${this.bits}, ${this.cohorts}, ${this.flip})\0`);
    const cohort = Number(below(await drawn(secret, text, 1), BigInt(this.cohorts)));
    const filter = new Array(this.bits).fill(0);
    for (const bit of this.positions[checked(value, this.positions.length)][cohort]) filter[bit] = 1;
    const packed = new Uint8Array(Math.ceil(this.bits / 8));
    filter.forEach((bit, b) => (packed[b >> 3] |= bit << (7 - (b & 7))));
    const source = await drawn(secret, Uint8Array.from([...text, ...packed]), this.bits);
    return [cohort, filter.map((bit) => Number(bernoulli(source, this.flip)) ^ bit)];
  }
  /** One report of a permanent answer. */
  instantaneous([cohort, members], source = operatingSystem) {
    return [cohort, members.map((bit) => bernoulli(source, either(this.p, this.q, BigInt(bit)))).join("")];
  }
}

/** The first `number` draws of 128 bits that a key and a message give. */
async function drawn(secret, message, number) {
  const draws = [];
  for (let k = 1; k <= number; k += 1) {
    const counter = new Uint8Array(8);
    new DataView(counter.buffer).setBigUint64(0, BigInt(k));
    const digest = new Uint8Array(await crypto.subtle.sign("HMAC", secret, Uint8Array.from([...message, ...counter])));
    draws.push(digest.slice(0, 16).reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n));
  }
  return { word: () => draws.shift() };
}
