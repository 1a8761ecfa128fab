// How curves are called, and in which order they are shown.
export const titles = (tag) => (tag === "global_step/sec" ? "throughput (steps per second)" : tag.replace(/^epoch_/, ""));

const first = ["loss", "auc", "global_step/sec", "accuracy", "average_loss"];
export function rank(tag) {
  const at = first.indexOf(tag.replace(/^epoch_/, ""));
  return at < 0 ? first.length : at;
}
