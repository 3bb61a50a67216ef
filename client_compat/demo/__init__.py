"""The main job: real flights through three clients at once, over a broker that loses acknowledgements and is killed, and the proof."""
