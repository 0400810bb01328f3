/** The figures of the BBR paper, as the scenario files that the command runs. */
import fig1 from "../../scenarios/figures/fig1.toml?raw";
import fig2 from "../../scenarios/figures/fig2.toml?raw";
import fig3 from "../../scenarios/figures/fig3.toml?raw";
import fig4 from "../../scenarios/figures/fig4.toml?raw";
import fig5 from "../../scenarios/figures/fig5.toml?raw";
import fig6 from "../../scenarios/figures/fig6.toml?raw";

export interface Preset {
  name: string;
  title: string;
  toml: string;
}

export const PRESETS: Preset[] = [
  { name: "fig1", title: "Figure 1: delivery rate and RTT over the volume in flight", toml: fig1 },
  { name: "fig2", title: "Figure 2: BBRv1 in its steady state", toml: fig2 },
  { name: "fig3", title: "Figure 3: the rate doubles, and falls back", toml: fig3 },
  { name: "fig4", title: "Figure 4: the first second, beside CUBIC", toml: fig4 },
  { name: "fig5", title: "Figure 5: the first eight seconds, beside CUBIC", toml: fig5 },
  { name: "fig6", title: "Figure 6: five flows share a bottleneck", toml: fig6 },
];
