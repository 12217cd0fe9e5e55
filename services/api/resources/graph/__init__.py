"""The knowledge graph of an agent: nodes, edges, types, drawings, duplicates and exports."""
