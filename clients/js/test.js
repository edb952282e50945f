// node test.js [repository root]: vectors of all protocols, exact channels by enumeration of short entropy, χ² of a million reports.
import { readFileSync, readdirSync } from "node:fs";
import { GRR, HadamardResponse, LocalHashing, Rappor, SubsetSelection, UnaryEncoding } from "./ldpbayes.js";

const root = new URL(process.argv[2] ? `file://${process.argv[2]}/` : "../../", import.meta.url);
const MAKE = {
  grr: (q) => new GRR(q.categories, q.epsilon),
  oue: (q) => new UnaryEncoding(q.categories, q.epsilon, q.lam),
  sue: (q) => new UnaryEncoding(q.categories, q.epsilon, q.lam),
  subset: (q) => new SubsetSelection(q.categories, q.epsilon, q.size),
  local_hashing: (q) => new LocalHashing(q.categories, q.epsilon, q.buckets),
  hadamard: (q) => new HadamardResponse(q.categories, q.epsilon),
};
const given = (draws, left = [...draws]) => ({ word: (bits) => (left[0][0] === bits ? BigInt(`0x${left.shift()[1]}`) : NaN) });
const same = (a, b, what) => {
  if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${what}: ${JSON.stringify(a)} is not ${JSON.stringify(b)}`);
};

const odd = (y) => [...y.toString(2)].filter((bit) => bit === "1").length % 2;
let compared = 0;
for (const name of readdirSync(new URL("data/vectors/", root))) {
  const file = JSON.parse(readFileSync(new URL(`data/vectors/${name}`, root), "utf8"));
  const q = file.parameters;
  const client = file.positions ? new Rappor(file.positions, q.p, q.q, q.f, q.bits) : MAKE[file.protocol](q);
  for (const { value, key, permanent } of file.permanent ?? []) {
    const [cohort, members] = await client.permanent(value, Uint8Array.from(Buffer.from(key, "hex")));
    same([cohort, members.join("")], permanent, `${name}, permanent`);
    compared += 1;
  }
  for (const { value, permanent, entropy, report } of file.vectors) {
    const kept = permanent && [permanent[0], [...permanent[1]].map(Number)];
    same(kept ? client.instantaneous(kept, given(entropy)) : client.report(value, given(entropy)), report, name);
    compared += 1;
  }
}
console.log(`${compared} vectors agree`);
// The client reads a draw of 128 bits through thresholds alone: the reports at both sides of each threshold give the channel.
const unit = 1n << 128n;
const one = (client, value, draw) => client.report(value, { word: () => draw });
const grr = new GRR(4, 1.0), oue = UnaryEncoding.optimized(3, 1.0), hadamard = new HadamardResponse(5, 1.0);
{
  for (let value = 0; value < 4; value += 1) {
    const mass = new Map();
    for (let group = 0n; group <= 3n; group += 1n) {
      const [low, high] = [group * grr.units, group < 3n ? (group + 1n) * grr.units : unit];
      same(one(grr, value, low), one(grr, value, high - 1n), "a group of draws");
      const report = one(grr, value, low);
      mass.set(report, (mass.get(report) ?? 0n) + high - low);
    }
    for (const [report, size] of mass) same(String(size), String(report === value ? unit - 3n * grr.units : grr.units), "GRR");
  }
  if (Number(unit - 3n * grr.units) / Number(grr.units) > Math.E * (1 + 1e-15)) throw new Error("GRR exceeds its level");
  for (let value = 0; value < 3; value += 1)
    for (let x = 0; x < 3; x += 1) {
      const threshold = x === value ? oue.kappa : oue.lam;
      const bit = (draw) => { let k = 0; return oue.report(value, { word: () => (k++ === x ? draw : 0n) })[x]; };
      same([bit(0n), bit(threshold - 1n), bit(threshold), bit(unit - 1n)], ["1", "1", "0", "0"], "OUE");
    }
  const ratio = (oue.kappa * (unit - oue.lam) * 10n ** 20n) / (oue.lam * (unit - oue.kappa));
  if (ratio > 271828182845904523536n) throw new Error("OUE exceeds its level");
  for (let value = 0; value < 5; value += 1) {
    const counts = [new Array(8).fill(0), new Array(8).fill(0)];
    for (const [inside, draw] of [[1, 0n], [1, hadamard.hit - 1n], [0, hadamard.hit], [0, unit - 1n]])
      for (let word = 0; word < 8; word += 1) counts[inside][hadamard.report(value, { word: (b) => (b === 128 ? draw : BigInt(word)) })] += 1;
    counts.forEach((row, inside) => row.forEach((count, y) => {
      same(count, odd((value + 1) & y) !== inside ? 4 : 0, "Hadamard");
    }));
  }
  console.log("channels of GRR, OUE and Hadamard response are exact");
}
// χ² of reports by the operating system's entropy; beyond 6 sd of its law something is wrong.
const size = Number(process.env.DRAWS ?? 1e6), e = Math.E, lam = 1 / (1 + e);
const LAWS = [
  [new GRR(4, 1.0), Number, Array.from({ length: 4 }, (_, y) => (y === 2 ? e : 1) / (e + 3))],
  [new HadamardResponse(4, 1.0), Number, Array.from({ length: 8 }, (_, y) => (odd(3 & y) ? 1 : e) / (4 * (1 + e)))],
  [UnaryEncoding.optimized(4, 1.0), (report) => parseInt(report, 2), Array.from({ length: 16 }, (_, y) =>
    [3, 2, 1, 0].reduce((p, s, x) => p * (x === 2 ? 0.5 : (y >> s) & 1 ? lam : 1 - lam), 1))],
];
for (const [client, place, law] of LAWS) {
  const counts = new Array(law.length).fill(0);
  for (let k = 0; k < size; k += 1) counts[place(client.report(2))] += 1;
  const statistic = counts.reduce((sum, count, y) => sum + (count - size * law[y]) ** 2 / (size * law[y]), 0);
  const sd = (statistic - (law.length - 1)) / Math.sqrt(2 * (law.length - 1));
  console.log(`${client.constructor.name}: χ² of ${size} reports lies ${sd.toFixed(2)} sd from its mean`);
  if (!(Math.abs(sd) < 6)) throw new Error("these are not the probabilities of the protocol");
}
